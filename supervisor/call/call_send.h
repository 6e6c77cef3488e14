/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sends a call's request as frames to the worker or the files process of an open workspace. */

#include "common/wire_commands.h"
#include "supervisor/call/call_request.h"

#include <stdint.h>

struct network_use;
struct workspace;

/** Sends the file call @call. Returns 0, or -EMSGSIZE if it does not fit into a frame. */
int call_send_files(struct workspace *workspace, uint64_t call, const struct call_request *request);

/**
 * Sends the command @call with its descriptors, which it takes; -1: it has none. @use is its
 * network. Returns 0, or -EMSGSIZE if the environment is too large.
 */
int call_send_command(struct workspace *workspace, uint64_t call,
	const struct call_request *request, const struct network_use *use,
	const int fds[COMMAND_FDS]);
