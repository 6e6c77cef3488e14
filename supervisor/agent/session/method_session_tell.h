/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* session.signal and session.resize. */

#include <stdbool.h>

struct command_terminal;
struct json_object;
struct jsonrpc_request;
struct client;

/**
 * Reads the size of the terminal that session.start gives (pty); rows 0 where it gives none.
 * Returns false if it is malformed.
 */
bool terminal_param(struct json_object *params, struct command_terminal *ret);

/** Answers @request. */
void method_session_signal(struct client *client, struct jsonrpc_request *request);
void method_session_resize(struct client *client, struct jsonrpc_request *request);
