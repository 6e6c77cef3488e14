/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file of the audit log and the end of its chain. It is opened at start, and later by its name
 * in the directory that was opened then. Lines are only ever appended.
 *
 * A full file is renamed to NAME.SEQ, where SEQ is the number of its last line in at least twelve
 * digits: names sort in the order of the chain and never change.
 */

#include "common/chain/audit_chain.h"

#include <stdbool.h>
#include <sys/types.h>

struct audit_file {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
	uint64_t size; /* as it was opened, and what was written since */
	/* bytes behind the last intact line, or of a line that was not finished */
	size_t torn;
	bool in_line;     /* no newline follows them */
	bool new_chain;   /* there was no chain to continue */
	bool from_former; /* the chain continues from the rotated file */
	struct audit_chain last;
};

/**
 * Opens or makes @name in @directory_fd and finds the last line of the chain: in this file or, if
 * it is empty, in the newest NAME.SEQ or in NAME.1, as logrotate(8) calls the previous one. Call it
 * before lock-down. Returns 0 or -errno: -EAGAIN if another process writes it, -EINVAL if it is not
 * a regular file.
 */
int audit_file_open(int directory_fd, const char *name, struct audit_file *ret);

/**
 * Opens @name again if it is another file now; otherwise does nothing. On success @file is the new
 * file and continues the chain. Returns 0, or -errno with @file unchanged.
 */
int audit_file_reopen(struct audit_file *file, int directory_fd, const char *name);

/**
 * Removes the oldest files NAME.SEQ until there are fewer than @keep, and then renames @name, if it
 * is still @file, to NAME.SEQ. audit_file_reopen() makes the next file. Returns 0, or -errno:
 * -EEXIST if the new name exists.
 */
int audit_file_rename_full(
	const struct audit_file *file, int directory_fd, const char *name, uint64_t keep);

void audit_file_close(struct audit_file *file);
