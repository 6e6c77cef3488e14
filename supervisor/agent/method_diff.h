/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.diff. */

struct client;
struct jsonrpc_request;

/** Answers @request, now or later. */
void method_workspace_diff(struct client *client, struct jsonrpc_request *request);
