/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* tool.input, and what its parameters share with those of session.write. */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct json_object;
struct jsonrpc_request;
struct client;

/* Input as a client gives it: data, encoding and eof. */
struct input_data {
	struct text data;
	bool eof;
	char *decoded; /* the buffer of data, or NULL */
};

/** Reads @params, of which @ret borrows. Returns NULL, or a message about the mistake in them. */
const char *input_data_read(struct json_object *params, struct input_data *ret);
void input_data_done(struct input_data *input);

/** Answers @request, now or later. */
void method_tool_input(struct client *client, struct jsonrpc_request *request);

/** call_owner.input_taken of a client_call. */
void tool_input_taken(void *context, const char *label, size_t taken, bool closed);
