/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A write while it is staged: for file_write.c, and for file_write_set.c, which takes some back. */

#include "worker/files/file_write.h"
#include "worker/files/walk/file_source.h"

#include <sys/stat.h>

struct file_write {
	const struct root *root;
	uint64_t call; /* as it was begun */
	struct root_place place;
	char *path; /* as the request gave it */
	size_t path_len;
	bool create_dirs;
	bool durable;
	bool look;        /* an earlier call may have made the change */
	bool prepared;    /* only its name is missing */
	bool published;   /* the file has its final name */
	bool held;        /* expect is what was there when the call was told so */
	bool streamed;    /* its size is known at its end */
	char *attributes; /* that the file gets (struct files_write); NULL: those that it had */
	size_t attributes_len;
	uint32_t mode; /* permission bits that the file gets; 0: those it had, or the usual ones */
	uint64_t size; /* announced by the request */
	uint64_t received; /* received so far */
	int fd;            /* of the new file */
	bool named;        /* there is a file with the name in temporary, which must be removed */
	int marks;         /* holds the call's mark while that name may exist (dir_marks.h); -1 */
	bool created;      /* there was no file before */
	struct file_version *version;         /* of the content; NULL: memory is out */
	char expect[FILES_VERSION_BYTES + 1]; /* version of the file to be replaced; "": any */
	int old_fd;                           /* the file to be replaced; borrowed; -1: any */
	struct text old_content;              /* of that file; borrowed */
	struct file_source source;            /* that file, if expect names its version */
	char temporary[sizeof(".cloister-") + 16];
	enum tool_error error; /* error that commit will answer */
	char sentence[256];    /* "": use the error code's own */
};

/**
 * Records why @staged fails, unless something is recorded: an error with its sentence, or a failed
 * system call.
 */
void file_write_fail(struct file_write *staged, enum tool_error error, const char *sentence);
void file_write_fail_errno(struct file_write *staged, int error_number);

/** The same for a failure of root_place(), which returns only a code. */
void file_write_fail_place(struct file_write *staged, enum tool_error error);

/** Gives the new file its temporary name, unless it has one. Returns 0 or -errno. */
int file_write_name(struct file_write *staged);

/**
 * Gives the complete file the attributes of the file @old that has its name, and writes it to disk
 * if it is durable. Returns 0 or -errno.
 */
int file_write_ready(struct file_write *staged, const struct stat *old);

/** Whether the file that has the name, if any, may be replaced: a mode of 0 means there is none. */
enum tool_error file_write_examine(const struct root_place *place, struct stat *ret_old);
