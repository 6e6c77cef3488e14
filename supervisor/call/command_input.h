/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a command reads from its standard input: bytes that came with its call, and bytes that its
 * client sends while it runs (tool.input). They are kept here until the command has taken them, and
 * the client is told of each part only then: that is its flow control, and there is no other. How
 * much is kept is bounded by who adds (method_input.c).
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct command_input;
struct service;
struct tenant_usage;

struct command_input_owner {
	/* What was added with @label (borrowed) has been taken, @taken bytes of it: all,
	 * or fewer and @closed, because the command does not read on. */
	void (*taken)(void *context, const char *label, size_t taken, bool closed);
	/* The command took something. */
	void (*moved)(void *context);
	void *context;
};

/** Kept before there is a command. 0 or -ENOMEM. */
int command_input_new(struct service *service, struct tenant_usage *usage,
	const struct command_input_owner *owner, struct command_input **ret_input);

/**
 * Adds @text, which is copied, and with @eof the end of the input. *@label (malloc'ed; @label NULL:
 * none) is taken on success, and then NULL; the owner may be told of it from in here. 0; -EPIPE
 * after the end has been added; or -ENOMEM.
 */
int command_input_add(struct command_input *input, struct text text, bool eof, char **label);

/** Makes the command's pipe: 0 with the read end, which is the caller's, or -errno. @first (data
 * NULL: nothing) is copied and goes before all that was added; @only: and is the input's end. */
int command_input_begin(
	struct command_input *input, struct text first, bool only, int *ret_read_end);

/** Bytes that have been added and not been taken, less the first ones. */
size_t command_input_pending(const struct command_input *input);

/** The command is over, or will not be: closes, and tells the owner of all that was not taken. */
void command_input_close(struct command_input *input);

/** Closes and tells nobody. NULL is fine. */
void command_input_free(struct command_input *input);
