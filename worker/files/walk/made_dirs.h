/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directories that one write_file has made, each in the one before, so that a failing write can
 * remove them. Runs in the files process. The tenant may have renamed or replaced them meanwhile,
 * or put files in them: a directory is removed only if it is the same inode and empty.
 */

#include "common/limits.h"

#include <stddef.h>
#include <sys/types.h>

struct made_dirs {
	int above;    /* O_PATH: the parent of the first; -1: there are none */
	char *names;  /* the uppermost first, each with a NUL */
	size_t len;   /* used bytes of names */
	size_t size;  /* allocated bytes of names */
	size_t count; /* number of names, at most LIMIT_PATH_DEPTH */
	struct made_inode {
		dev_t device;
		ino_t inode;
	} * inodes;
	size_t inodes_size;
};

#define MADE_DIRS_NONE ((struct made_dirs){.above = -1})

/**
 * Makes the directory @name in @dir, mode 0777 less the umask, and opens it with O_PATH. Notes it
 * in @made if it did not exist; if @dir is not the directory noted last, forgets the earlier notes
 * first. Returns the descriptor, or -errno with nothing new created.
 */
int made_dirs_make(struct made_dirs *made, int dir, const char *name);

/**
 * Removes the noted directories, the deepest first, up to one that is not empty, and forgets all.
 */
void made_dirs_undo(struct made_dirs *made);

/** Forgets the notes; the directories stay. */
void made_dirs_done(struct made_dirs *made);
