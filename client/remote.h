/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One command in the workspace, with its input and output as they come: what exec, put and get have
 * in common. SIGINT and SIGTERM cancel it, and a second one does not wait for the answer. While it
 * runs long, a terminal is told so (progress.h).
 */

#include "libcloister/cloister.h"

#include <sys/types.h>

struct json_object;
struct progress;
struct remote;

struct remote_call {
	const char *command;
	int64_t timeout_ms;          /* 0: the workspace's default */
	struct json_object *options; /* borrowed */
	struct progress *progress;
	/* What the command wrote. < 0, after printing why, ends it. */
	int (*output)(struct remote *remote, enum cloister_stream stream, const void *data,
		size_t len, void *context);
	/* NULL: it has no input. Up to @size bytes of it; 0: that was all; < 0, after printing why,
	 * ends the command. */
	ssize_t (*input)(void *buffer, size_t size, void *context);
	/* Its answer, if there is one; may be NULL. */
	void (*ended)(const struct cloister_message *reply, void *context);
	int input_fd; /* that is readable when input is not to be waited for; -1: it never is */
	void *context;
};

struct remote_end {
	int status; /* the command's as sh(1) has it, or STATUS_DEADLINE, _OWN_FAILURE, _SIGNAL_BASE
		     */
	bool ran;   /* to its own end: status is the command's */
};

/** Runs it. What goes wrong is printed. */
struct remote_end remote_run(struct cloister *cloister, const struct remote_call *call);

/** Writes to @fd, and waits for room there, until a signal comes. As output(). */
int remote_write(struct remote *remote, int fd, const void *data, size_t len);

/** Our own standard input, as a call's; what fails is said. @context is not used. */
ssize_t remote_read_stdin(void *buffer, size_t size, void *context);
