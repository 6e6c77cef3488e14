/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: path_resolution(7) done here, one component at a time, for what openat2(2) cannot
 * do (links that name the visible root, missing directories to be made) or where there is no
 * openat2. The tenant renames and swaps directories meanwhile. What keeps it inside: a name is only
 * ever looked up in a directory whose descriptor is held, links are read, never followed by the
 * kernel, and ".." goes back to the descriptor that was held before, never to where a directory
 * lies by now.
 */

#include "common/limits.h"
#include "worker/files/made_dirs.h"
#include "worker/files/root_open.h"

#include <sys/types.h>

#define PATH_WALK_PENDING (4UL * LIMIT_PATH_BYTES)

struct path_walk_options {
	bool nofollow;   /* a last component that is a link is the result */
	bool missing_ok; /* the last component need not exist */
	/* Directories on the way are made, and noted here; NULL: they are not. */
	struct made_dirs *made;
};

/* Where a walk stands, and once path_walk returned TOOL_OK, what the path means. */
struct path_walk {
	const struct root *root;
	struct path_walk_options options;

	int dirs[LIMIT_PATH_DEPTH +
		 1]; /* O_PATH, from the root (borrowed) to where the walk stands */
	size_t ends[LIMIT_PATH_DEPTH + 1]; /* how much of resolved names each of them */
	size_t depth;                      /* the index of the last one */

	bool at_leaf; /* the path means something else than dirs[depth]: name in it */
	int leaf;     /* O_PATH, if at_leaf and it exists */
	mode_t mode;  /* of leaf; 0: does not exist */
	char name[LIMIT_NAME_BYTES + 1];

	char resolved[LIMIT_PATH_BYTES +
		      1]; /* relative to the root, without links; "" is the root */

	/*
	 * What is still to be walked, at the end of the buffer, so that a link's target goes in
	 * front of it. What lies before argument_at came from links.
	 */
	size_t at, argument_at;
	unsigned links;
	char pending[PATH_WALK_PENDING];
};

/**
 * Walks @relative (as path_rules_check gives it) from @root. @walk need not be initialised;
 * path_walk_done releases it also after a failure. Returns TOOL_OK or the code for the observation;
 * what was made until then is the caller's to undo.
 */
enum tool_error path_walk(const struct root *root, const char *relative,
	struct path_walk_options options, struct path_walk *walk);

void path_walk_done(struct path_walk *walk);
