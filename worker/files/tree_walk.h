/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: every entry below a directory, depth first, in the byte order of names, while the
 * tenant changes the tree. Descent goes from descriptor to descriptor and never through a symbolic
 * link, so nothing outside the directory is reached; mounts are crossed. Depth is bounded by
 * LIMIT_WALK_PATH_BYTES alone. getdents64(2).
 */

#include "common/text.h"

#include <stdint.h>

/* Borrowed for the time of one visit. */
struct walk_entry {
	int dirfd; /* of the directory that holds it; perhaps O_PATH */
	const char *name;
	struct text path;    /* relative to the workspace's root */
	unsigned char type;  /* DT_*, never DT_UNKNOWN */
	uint64_t unreadable; /* as in walk_end, up to here */
};

/** Called for each entry, for a directory before what is in it. Anything but 0 ends the walk. */
typedef int (*walk_visitor)(const struct walk_entry *entry, void *context);

struct walk {
	int root_fd;      /* the workspace's root, for the .gitignore files above @path */
	struct text path; /* of the directory to walk, from the workspace's root; "." is that */
	bool recursive;
	bool temporaries; /* visit cloister's own temporary files too */
	bool gitignore;   /* leave out what git ignores; @path itself is walked in any case */
	walk_visitor visit;
	void *context;
};

struct walk_end {
	uint64_t unreadable; /* directories that could not be read, or were moved while inside */
	bool truncated;      /* a path or a directory was too long to be walked whole */
};

/**
 * Walks the directory @fd (open for reading; borrowed), which is @walk->path. cloister's own
 * temporary files are left out unless they are asked for. Returns 0, what the visitor returned, or
 * -errno when this process lacks memory or descriptors; sets *@ret_end in each case.
 */
int tree_walk(const struct walk *walk, int fd, struct walk_end *ret_end);

/** Whether @name is that of a temporary of ours: .cloister- and the 16 hex digits of a call. */
bool tree_walk_is_temporary(const char *name);
