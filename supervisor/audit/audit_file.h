/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file of the audit log and the end of its chain. It is opened at start, and later by its name
 * in the directory that was opened then. Lines are only ever appended.
 */

#include "common/chain/audit_chain.h"

#include <stdbool.h>
#include <sys/types.h>

struct audit_file {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
	/* bytes behind the last intact line, or of a line that was not finished */
	size_t torn;
	bool in_line;     /* no newline follows them */
	bool new_chain;   /* there was no chain to continue */
	bool from_former; /* the chain continues from the rotated file */
	struct audit_chain last;
};

/**
 * Opens or makes @name in @directory_fd and finds the last line of the chain: in this file or, if
 * it is empty, in NAME.1, as logrotate(8) calls the previous one. Call it before lock-down. Returns
 * 0 or -errno: -EAGAIN if another process writes it, -EINVAL if it is not a regular file.
 */
int audit_file_open(int directory_fd, const char *name, struct audit_file *ret);

/**
 * Opens @name again if it is another file now; otherwise does nothing. On success @file is the new
 * file and continues the chain. Returns 0, or -errno with @file unchanged.
 */
int audit_file_reopen(struct audit_file *file, int directory_fd, const char *name);

void audit_file_close(struct audit_file *file);
