/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What put and get have in common: scripts in the workspace whose input and output are streams of
 * bytes, and what the workspace says of its files. */

#include "client/progress.h"
#include "client/tar.h"

#include <sys/types.h>

struct invocation;
struct known_files;
struct session;

#define TRANSFER_RECORD_MAX (PATH_MAX + 128)

struct transfer {
	const struct invocation *invocation;
	struct progress progress;
	/* Where output goes: NUL-terminated records, or bytes. < 0, after printing why, ends it. */
	int (*records)(struct text record, void *context);
	int (*bytes)(struct text data, void *context);
	int to_fd; /* or where neither is set; -1: nowhere */
	ssize_t (*input)(void *buffer, size_t size, void *context); /* of the run at hand */
	void *context;
	char record[TRANSFER_RECORD_MAX];
	size_t record_len;
};

struct transfer transfer_init(const struct invocation *invocation, void *context);

/**
 * Runs @script, in which the shell's variable @name is @value. @input as that of struct
 * remote_call. The exit status for it, what is wrong having been printed.
 */
int transfer_run(struct transfer *transfer, struct session *session, const char *script,
	const char *name, const char *value,
	ssize_t (*input)(void *buffer, size_t size, void *context), int input_fd);

/** Reads "MODE SIZE MTIME PATH", or with @typed find(1)'s letter of the type before it; the type is
 * a file's otherwise. 0 or -EINVAL. */
int transfer_read_record(struct text record, bool typed, struct tar_entry *ret_entry);

/* A set of files, each known by its path, size, time and permissions; by a hash of them, so that it
 * is small, and without those that are too many. */

/** NULL: out of memory, which is printed. */
struct known_files *known_files_new(void);
int known_files_add(struct known_files *known, const struct tar_entry *entry);
bool known_files_has(const struct known_files *known, const struct tar_entry *entry);
void known_files_free(struct known_files *known);
