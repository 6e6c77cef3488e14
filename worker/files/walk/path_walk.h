/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * path_resolution(7) in user space, one component at a time, in the files process, for what
 * openat2(2) cannot do: it follows links that name the visible root, makes missing directories, and
 * reports where a path with ".." led. The tenant may rename and swap directories meanwhile. The
 * walk stays inside because it looks up a name only in an open directory, reads links instead of
 * letting the kernel follow them, and takes ".." back to the descriptor that it held before, never
 * to the current parent of a directory.
 */

#include "common/errors.h"
#include "common/limits.h"
#include "common/text.h"
#include "worker/files/walk/made_dirs.h"

#include <sys/types.h>

#define PATH_WALK_PENDING (4UL * LIMIT_PATH_BYTES)

struct path_walk_options {
	bool nofollow;   /* do not follow a link in the last component */
	bool missing_ok; /* the last component need not exist */
	/* Makes missing directories on the way and notes them here; NULL: makes none. */
	struct made_dirs *made;
};

/* The position of a walk and, once path_walk() has returned TOOL_OK, the result. */
struct path_walk {
	struct text visible; /* path of the root in links: struct root */
	struct path_walk_options options;

	int dirs[LIMIT_PATH_DEPTH +
		 1]; /* O_PATH, from the root (borrowed) to the current directory */
	size_t ends[LIMIT_PATH_DEPTH + 1]; /* for each of them, its length in resolved */
	size_t depth;                      /* index of the last one */

	bool at_leaf; /* the path names an entry of dirs[depth]: name */
	int leaf;     /* O_PATH, if at_leaf and it exists */
	mode_t mode;  /* of leaf; 0: does not exist */
	char name[LIMIT_NAME_BYTES + 1];

	char resolved[LIMIT_PATH_BYTES +
		      1]; /* relative to the root, without links; "" is the root */

	/*
	 * The rest of the path lies at the end of the buffer, so that a link's target can be
	 * inserted before it. The part before argument_at came from links.
	 */
	size_t at, argument_at;
	unsigned links;
	char pending[PATH_WALK_PENDING];
};

/**
 * Walks @relative (from path_rules_check()) from the directory @root, which links name as @visible.
 * @walk need not be initialised; free it with path_walk_done() even after a failure. Returns
 * TOOL_OK or the code for the observation. Directories made before a failure are the caller's to
 * remove.
 */
enum tool_error path_walk(int root, struct text visible, const char *relative,
	struct path_walk_options options, struct path_walk *walk);

void path_walk_done(struct path_walk *walk);
