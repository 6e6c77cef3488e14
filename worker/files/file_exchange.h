/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Replaces a file by a new one only if it is the file that was read, with the content that was
 * read: the two exchange their names (renameat2(2), RENAME_EXCHANGE), and what has come out is
 * looked at. If it is not what was expected, both are put back, so that nothing is lost that
 * another process has written meanwhile. The files process calls it for writes and edits that
 * expect a version.
 */

#include "common/text.h"

#include <errno.h>
#include <stdbool.h>

/* There is not the file that the write expects. No system call here returns this number. */
#define ERROR_CHANGED ECANCELED

/* All of it is borrowed. */
struct file_exchange {
	int parent;              /* the directory of both files */
	const char *temporary;   /* name of the new file, which must have one */
	const char *name;        /* name of the file to be replaced */
	int new_fd, old_fd;      /* the two files */
	struct text old_content; /* what was read from old_fd */
};

/**
 * Gives the new file the name of the old one. Returns 0 and stores in @ret_left whether the
 * temporary name is still there, with the replaced file, for the caller to remove; -ERROR_CHANGED
 * if the old file is not what is expected, or another -errno. After a failure the temporary name is
 * still there.
 */
int file_exchange(const struct file_exchange *exchange, bool *ret_left);
