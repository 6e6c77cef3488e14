/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* tool.input. */

#include <stdbool.h>
#include <stddef.h>

struct jsonrpc_request;
struct session;

/** Answers @request, now or later. */
void method_tool_input(struct session *session, struct jsonrpc_request *request);

/** call_owner.input_taken of a session_call. */
void tool_input_taken(void *context, const char *label, size_t taken, bool closed);
