/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The method workspace.list. */

struct jsonrpc_request;
struct client;

/** Answers @request: at once if there are few workspaces, otherwise when all are listed. */
void method_workspace_list(struct client *client, struct jsonrpc_request *request);
