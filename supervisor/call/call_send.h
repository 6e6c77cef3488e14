/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A call's request on its way down: arguments into frames for the worker or the files process of an
 * open workspace. */

#include "supervisor/call/call_request.h"

#include <stdint.h>

struct workspace;

/** Sends the file call @call. 0, or -EMSGSIZE when it does not fit a frame. */
int call_send_files(struct workspace *workspace, uint64_t call, const struct call_request *request);

/** Sends the command @call with its descriptors, which are taken. 0, or -EMSGSIZE when the
 * environment is too large. */
int call_send_command(struct workspace *workspace, uint64_t call,
	const struct call_request *request, const int *fds, unsigned n_fds);
