/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command's standard input: bytes that came with its call, and bytes that its client sends while
 * it runs (tool.input). A thread of its tenant writes them (shared_fd.h). Each part is kept here
 * until the command has taken it, and only then is the client told, which is the only flow control.
 * The caller bounds how much is kept (method_input.c).
 */

#include "common/text.h"
#include "supervisor/base/shared_fd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command_input;
struct service;
struct tenant_usage;

struct command_input_owner {
	/*
	 * The input added with @label (borrowed) has been taken: all of it, or @taken bytes if the
	 * command has @closed its input.
	 */
	void (*taken)(void *context, const char *label, size_t taken, bool closed);
	/* The command took some input. */
	void (*moved)(void *context);
	/* The processes that share the pipe are to be ended. */
	void (*held)(void *context);
	void *context;
};

/** Makes an input before there is a command. Returns 0 or -ENOMEM. */
int command_input_new(struct service *service, struct tenant_usage *usage,
	const struct command_input_owner *owner, struct command_input **ret_input);

/**
 * Adds @text, which is copied, and with @eof the end of the input. *@label (malloc'ed; @label NULL:
 * none) is taken on success, and then NULL; the owner may be told of it from in here. 0; -EPIPE
 * after the end has been added; or -ENOMEM.
 */
int command_input_add(struct command_input *input, struct text text, bool eof, char **label);

/**
 * Makes the command's pipe. Returns 0 with the read end, which the caller owns, or -errno. A copy
 * of @first (data NULL: nothing) goes before everything that was added; with @only it is all of the
 * input. @sum is that of the workspace.
 */
int command_input_begin(struct command_input *input, struct shared_fd_sum *sum, struct text first,
	bool only, int *ret_read_end);

/** Returns the number of bytes that were added and not taken, without the bytes of @first. */
size_t command_input_pending(const struct command_input *input);

/** Returns the number of parts in which they were added; each part takes memory. */
size_t command_input_parts(const struct command_input *input);

/**
 * Whether a process could still read the input. Looks at the pipe. If the command closes it after
 * the last write, only the next write finds it closed.
 */
bool command_input_is_read(const struct command_input *input);

/**
 * The command has ended, or will not begin: closes the pipe, and reports all untaken parts to the
 * owner.
 */
void command_input_close(struct command_input *input);

/** Frees it without calling the owner. NULL is allowed. */
void command_input_free(struct command_input *input);
