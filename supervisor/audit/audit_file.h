/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file that the audit log is written to, and where its chain stood. At start it is opened, and
 * afterwards by name in the directory that was opened then. A file is only ever appended to.
 */

#include "common/chain/audit_chain.h"

#include <stdbool.h>
#include <sys/types.h>

struct audit_file {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino;
	size_t torn;      /* bytes behind the last whole line, or of a line that was not finished */
	bool in_line;     /* they have no newline behind them */
	bool new_chain;   /* nothing that is there could be gone on from */
	bool from_former; /* the chain goes on from the file that was rotated away */
	struct audit_chain last;
};

/**
 * Opens or makes @name in @directory_fd and finds the last line: in it, or where it is empty in
 * NAME.1, as logrotate(8) calls it. Before lock-down. 0, or -errno: -EAGAIN when another process
 * writes it, -EINVAL when it is no regular file.
 */
int audit_file_open(int directory_fd, const char *name, struct audit_file *ret);

/**
 * Opens @name again because it may be another file now; nothing happens when it is not. Otherwise
 * @file is the new one, and goes on with the chain. 0, or -errno with @file as it was.
 */
int audit_file_reopen(struct audit_file *file, int directory_fd, const char *name);

void audit_file_close(struct audit_file *file);
