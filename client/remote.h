/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs one command in the workspace and streams its input and output; exec, put and get use it.
 * SIGINT and SIGTERM cancel the command, and a second signal does not wait for the answer. A
 * terminal gets a progress line while it runs (progress.h).
 */

#include "libcloister/cloister.h"

#include <sys/types.h>

struct json_object;
struct progress;
struct remote;

struct remote_call {
	const char *command;
	int64_t timeout_ms;          /* 0: the tenant's longest */
	struct json_object *options; /* borrowed */
	bool blocked_list;           /* apply the tenant's list of blocked commands */
	struct progress *progress;
	/*
	 * Receives the command's output. A negative result, after printing why, ends the command.
	 */
	int (*output)(struct remote *remote, enum cloister_stream stream, const void *data,
		size_t len, void *context);
	/*
	 * Returns up to @size bytes of input; 0 at its end; a negative result, after printing why,
	 * ends the command. NULL: no input.
	 */
	ssize_t (*input)(void *buffer, size_t size, void *context);
	/* Stores what the command has changed, a new reference, if the answer says that. NULL: no.
	 */
	struct json_object **ret_diff;
	/* Receives the answer, if one comes. May be NULL. */
	void (*ended)(const struct cloister_message *reply, void *context);
	int input_fd; /* readable when input can be read without waiting; -1: input never waits */
	void *context;
};

struct remote_end {
	/* the command's status as in sh(1), or STATUS_DEADLINE, _OWN_FAILURE, _SIGNAL_BASE */
	int status;
	bool ran; /* the command ran to its end: status is its own */
};

/** Runs the command. Prints what goes wrong. */
struct remote_end remote_run(struct cloister *cloister, const struct remote_call *call);

/**
 * Returns the status of the command whose observation is at @pointer in @reply, as sh(1) would, or
 * -1 if it does not say how the command ended.
 */
int remote_status(const struct cloister_message *reply, const char *pointer);

/** Writes to @fd and waits for room there, until a signal comes. Returns like output(). */
int remote_write(struct remote *remote, int fd, const void *data, size_t len);

/** Reads our standard input for a call. Prints errors. @context is not used. */
ssize_t remote_read_stdin(void *buffer, size_t size, void *context);
