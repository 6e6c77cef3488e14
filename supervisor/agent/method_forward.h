/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.forward: a connection of the agent socket becomes one to a port of a workspace. */

struct jsonrpc_request;
struct client;

void method_workspace_forward(struct client *client, struct jsonrpc_request *request);
