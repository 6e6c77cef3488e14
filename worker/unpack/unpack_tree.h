/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The template that an archive becomes. All that comes from the archive is checked here: every
 * directory of a path is looked up below the root and through no symbolic link, existing files are
 * never written to, and new ones belong to the caller's id. Modes lose set-user-ID and
 * set-group-ID; devices and FIFOs are left out, as are owners and extended attributes.
 *
 * Functions return 0, -UNPACK_REFUSAL with the fault in the report, or another -errno.
 */

#include "common/unpack_report.h"
#include "worker/unpack/path_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define UNPACK_REFUSAL EKEYREJECTED

struct unpack_directory;

struct unpack_tree {
	int root; /* borrowed */
	uint64_t max_bytes, max_files;
	uint64_t bytes, files; /* created entries, also those that another layer has replaced */
	/* Layers of an image: entries that exist and are not in the set belong to lower layers. */
	bool layers;
	struct path_set brought; /* by the present layer */
	struct unpack_directory *directories;
	size_t n_directories, size_directories, paths_bytes;
	struct unpack_report report;
	char name[LIMIT_UNPACK_NAME_BYTES];
};

/* An archive's description of an entry. */
struct unpack_entry {
	const char *path; /* its bytes, unchecked */
	mode_t mode;
	struct timespec modified;
};

/* A file that is being written. */
struct unpack_file {
	int fd;              /* -1: none */
	uint64_t end, pages; /* up to where it has been written, and charged for */
};

int unpack_tree_init(struct unpack_tree *tree, int root, uint64_t max_bytes, uint64_t max_files);
void unpack_tree_done(struct unpack_tree *tree);

/** Fills in the report: @fault of @name, which may be NULL. Returns -UNPACK_REFUSAL. */
int unpack_refuse(struct unpack_tree *tree, enum unpack_fault fault, const char *name);

/** Another entry was read, whatever it is. */
int unpack_tree_count(struct unpack_tree *tree);

/** The next archive is a layer above those before it. */
void unpack_tree_next_layer(struct unpack_tree *tree);

int unpack_tree_directory(struct unpack_tree *tree, const struct unpack_entry *entry);
int unpack_tree_symlink(
	struct unpack_tree *tree, const struct unpack_entry *entry, const char *target);
/** A hard link to the path @target of the same tree. */
int unpack_tree_link(
	struct unpack_tree *tree, const struct unpack_entry *entry, const char *target);

/** Begins a regular file, which the caller writes and closes. */
int unpack_tree_file(
	struct unpack_tree *tree, const struct unpack_entry *entry, struct unpack_file *ret);
int unpack_file_write(struct unpack_tree *tree, struct unpack_file *file, const void *data,
	size_t len, uint64_t offset);
/** Gives it its @size, mode and time. Takes @file in any case. */
int unpack_file_close(struct unpack_tree *tree, struct unpack_file *file,
	const struct unpack_entry *entry, uint64_t size);

/**
 * Removes @path of the lower layers, or with @content the entries in it. A path that does not
 * exist, or is below no directory of theirs, is hidden already.
 */
int unpack_tree_hide(struct unpack_tree *tree, const char *path, bool content);

/** All entries exist: gives the directories their modes and times. */
int unpack_tree_finish(struct unpack_tree *tree);
