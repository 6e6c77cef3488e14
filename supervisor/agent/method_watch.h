/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * file.watch and file.unwatch. A watch is a call that is answered when the directory is watched;
 * events and the end follow as notifications. It ends with its connection.
 */

#include "common/errors.h"
#include "supervisor/connection/client_state.h"

struct refusal;

/** How file.watch is answered. */
extern const struct reply_form watch_form;

/** Whether one more watch of @workspace is refused. Returns TOOL_OK or sets @refusal. */
enum tool_error watch_refuses(const struct workspace *workspace, struct refusal *refusal);

/** The client has closed @workspace: ends its watches there. */
void watch_workspace_closed(struct client *client, const struct workspace *workspace);

void method_file_unwatch(struct client *client, struct jsonrpc_request *request);
