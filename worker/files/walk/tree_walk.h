/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Visits every entry below a directory, depth first and in byte order of names, while the tenant
 * may change the tree. Used by the files process. It descends from descriptor to descriptor and
 * never through a symbolic link, so it stays below the directory; it does cross mounts. Only
 * LIMIT_WALK_PATH_BYTES bounds the depth. getdents64(2).
 */

#include "worker/files/walk/root_open.h"

#include <stdint.h>

/* Borrowed for the duration of one visit. */
struct walk_entry {
	int dirfd; /* of its directory; may be O_PATH */
	const char *name;
	struct text path;    /* relative to the workspace's root */
	size_t depth;        /* 1: an entry of the walked directory */
	unsigned char type;  /* DT_*, never DT_UNKNOWN */
	uint64_t unreadable; /* as in walk_end, so far */
};

/**
 * Called for each entry, and for a directory before its entries. Any result but 0 ends the walk.
 */
typedef int (*walk_visitor)(const struct walk_entry *entry, void *context);

struct walk {
	const struct root *root; /* for what git ignores; may be NULL without @gitignore */
	/* the directory to walk, relative to the workspace's root; "." is the root */
	struct text path;
	bool recursive;
	size_t min_depth; /* entries above it are not visited, and what is unreadable there not
			     counted */
	size_t max_depth; /* directories there are not entered; 0: any depth */
	bool temporaries; /* visit cloister's own temporary files too */
	bool gitignore;   /* omit what git ignores, except @path itself */
	walk_visitor visit;
	void *context;
};

struct walk_end {
	/* directories that could not be read, or that were moved during the walk */
	uint64_t unreadable;
	uint64_t
		ignored; /* entries from min_depth on that were left out because git ignores them */
	bool truncated;  /* a path or a directory was too long to be walked whole */
};

/**
 * Walks the directory @fd (open for reading; borrowed), whose path is @walk->path. Omits cloister's
 * own temporary files unless asked for them. Returns 0, the visitor's result, or -errno if this
 * process lacks memory or descriptors; sets *@ret_end in every case.
 */
int tree_walk(const struct walk *walk, int fd, struct walk_end *ret_end);

/**
 * Whether @name is that of a temporary file of cloister: .cloister- and the 16 hex digits of a
 * call.
 */
bool tree_walk_is_temporary(const char *name);
