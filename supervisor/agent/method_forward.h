/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.forward: a connection of the agent socket becomes one to a port of a workspace. */

struct jsonrpc_request;
struct session;

void method_workspace_forward(struct session *session, struct jsonrpc_request *request);
