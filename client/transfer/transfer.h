/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by put and get: scripts in the workspace with streams of bytes as input and output, and
 * the workspace's list of its files.
 */

#include "client/tar/tar.h"
#include "client/transfer/progress.h"

#include <sys/types.h>

struct invocation;
struct known_files;
struct remote;
struct session;

#define TRANSFER_RECORD_MAX (PATH_MAX + 128)

struct transfer {
	const struct invocation *invocation;
	struct progress progress;
	/*
	 * Receives the output as NUL-terminated records or as bytes. A negative result, after
	 * printing why, ends the script.
	 */
	int (*records)(struct text record, void *context);
	int (*bytes)(struct text data, void *context);
	struct remote *remote; /* of the current script, for remote_write() */
	int to_fd;             /* receives the output if neither is set; -1: it is dropped */
	ssize_t (*input)(void *buffer, size_t size, void *context); /* for the current script */
	void *context;
	char error[512]; /* a line of the script's error messages, as far as it has come */
	size_t error_len;
	char record[TRANSFER_RECORD_MAX];
	size_t record_len;
};

struct transfer transfer_init(const struct invocation *invocation, void *context);

/**
 * Runs @script with the shell's variable @name set to @value. @input is like the one in struct
 * remote_call. Prints errors. Returns the exit status.
 */
int transfer_run(struct transfer *transfer, struct session *session, const char *script,
	const char *name, const char *value,
	ssize_t (*input)(void *buffer, size_t size, void *context), int input_fd);

/**
 * Runs tar(1) in the workspace on the archive that @input reads, below @directory, which is made.
 * @options are more options of it: "p" keeps modes. Without @overwrite it replaces nothing. Returns
 * like transfer_run().
 */
int transfer_extract(struct transfer *transfer, struct session *session, const char *options,
	bool overwrite, const char *directory,
	ssize_t (*input)(void *buffer, size_t size, void *context), int input_fd);

/**
 * Reads "MODE SIZE MTIME PATH", with @typed preceded by find(1)'s letter for the type; otherwise
 * the type is a file. Returns 0 or -EINVAL.
 */
int transfer_read_record(struct text record, bool typed, struct tar_entry *ret_entry);

/*
 * A set of files, each identified by its path, size, time and permissions. It keeps only their
 * hashes, and a bounded number of them.
 */

/** Returns NULL, after a complaint, if memory is out. */
struct known_files *known_files_new(void);
int known_files_add(struct known_files *known, const struct tar_entry *entry);
bool known_files_is_empty(const struct known_files *known);
bool known_files_has(const struct known_files *known, const struct tar_entry *entry);
void known_files_free(struct known_files *known);
