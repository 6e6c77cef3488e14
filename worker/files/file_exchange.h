/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Replaces a file by a new one only if it is the file that was read, and unchanged. The two files
 * exchange their names (renameat2(2), RENAME_EXCHANGE), and the old file is checked again. If it is
 * another file or was changed, the names are exchanged back, so nothing that another process has
 * written is lost. The files process calls it for writes and edits that expect a version.
 *
 * Exchanges of one name take turns (dir_marks.h), also those of other cloister instances.
 * Otherwise a second exchange could build on a file that the first is about to take back.
 */

#include "common/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

struct stat;

/* The file is not the one that the write expects. No system call here returns this number. */
#define ERROR_CHANGED ECANCELED
/* Another exchange of the name does not end. No system call here returns this number. */
#define ERROR_NO_TURN ETIME

/* All of it is borrowed. */
struct file_exchange {
	uint64_t call;           /* that replaces the file */
	int parent;              /* the directory of both files */
	int marks;               /* on it, of dir_mark_call(); -1: it cannot have any */
	const char *temporary;   /* name of the new file, which must have one */
	const char *name;        /* name of the file to be replaced */
	int new_fd, old_fd;      /* the two files */
	struct text old_content; /* what was read from old_fd */
};

/**
 * Gives the new file the name of the old one. Returns 0 and stores in @ret_left whether the
 * temporary name is still there, with the replaced file, for the caller to remove; -ERROR_CHANGED
 * if the old file is not what is expected, -ERROR_NO_TURN, or another -errno. After a failure the
 * temporary name is still there.
 */
int file_exchange(const struct file_exchange *exchange, bool *ret_left);

/** Whether @found is the file that @fd has open, and has exactly @content. */
bool file_exchange_is_same(int fd, struct text content, const struct stat *found);

/* A file that is to be removed, in two steps, so that it can be brought back. Borrowed. */
struct file_take {
	uint64_t call;         /* that removes the file */
	int parent;            /* its directory */
	int marks;             /* on it, of dir_mark_call(); -1: it cannot have any */
	const char *temporary; /* its name after the first step */
	const char *name;
	int fd;              /* the file */
	struct text content; /* what was read from it */
};

/**
 * Gives the file its temporary name. Returns 0, -ERROR_CHANGED if it is not what is expected,
 * -ERROR_NO_TURN, or another -errno; then it has its name, unless another process has put a newer
 * file there.
 */
int file_take(const struct file_take *take);

/** Gives it its name again, unless another process has put a newer file there. Returns 0 or -errno.
 */
int file_give_back(const struct file_take *take);
