/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies a tree, in a child of the spawner. The source is hostile, and may change meanwhile: every
 * name is looked up in a directory that is held open, without following links. The copies belong to
 * the caller's id: regular files (shared with the source where the file system can,
 * ioctl_ficlone(2), and with their holes), directories, symbolic links, hard links of one file,
 * FIFOs, modes without set-user-ID and set-group-ID of files, times, and extended attributes of the
 * user's but those of an overlay. Sockets and devices are left out.
 */

#include <stdbool.h>
#include <stdint.h>

struct statfs;

struct tree_copy {
	int from;           /* the directory to copy */
	int to;             /* an empty one */
	uint64_t max_bytes; /* on disk */
	uint64_t max_files; /* and directories */
	/* @to is a tmpfs, which may take @max_bytes, with its files (tree_copy_taken()) */
	bool to_memory;
};

/**
 * Copies everything in the tree, and the attributes of its root. Returns 0; -EFBIG or -EOVERFLOW if
 * it has more bytes or files than allowed; -ENAMETOOLONG if it is deeper than LIMIT_CLEAR_DEPTH; or
 * another -errno. Files that were copied until then stay.
 */
int tree_copy(const struct tree_copy *copy);

/** The memory of a tmpfs with @status: its pages, and something for each file. */
uint64_t tree_copy_taken(const struct statfs *status);
