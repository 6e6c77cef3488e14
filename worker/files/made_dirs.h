/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-files: the directories that one write_file has made, each in the one before, so that a
 * write that fails takes them back. The tenant may meanwhile have renamed them, replaced them or
 * put something in them: what is not the same inode or not empty stays.
 */

#include "common/limits.h"

#include <stddef.h>
#include <sys/types.h>

struct made_dirs {
	int above;    /* O_PATH: holds the first of them; -1: there are none */
	char *names;  /* one after the other, each NUL-terminated, the uppermost first */
	size_t len;   /* of names */
	size_t size;  /* what names has room for */
	size_t count; /* at most LIMIT_PATH_DEPTH */
	struct made_inode {
		dev_t device;
		ino_t inode;
	} * inodes;
	size_t inodes_size;
};

#define MADE_DIRS_NONE ((struct made_dirs){.above = -1})

/**
 * Makes the directory @name in @dir, mode 0777 less the umask, and opens it with O_PATH. It is
 * noted in @made if it was not there before; @dir is then the directory noted last, or @made is
 * forgotten first. Returns the descriptor or -errno, after which nothing new is there.
 */
int made_dirs_make(struct made_dirs *made, int dir, const char *name);

/** Removes what @made notes, the deepest first, up to one that is not empty, and forgets it. */
void made_dirs_undo(struct made_dirs *made);

/** Forgets @made; what was made stays. */
void made_dirs_done(struct made_dirs *made);
