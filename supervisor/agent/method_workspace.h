/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Methods about workspaces. */

struct jsonrpc_request;
struct session;

/* Each answers @request, now or later. */
void method_workspace_open(struct session *session, struct jsonrpc_request *request);
void method_workspace_close(struct session *session, struct jsonrpc_request *request);
void method_workspace_list(struct session *session, struct jsonrpc_request *request);
void method_workspace_remove(struct session *session, struct jsonrpc_request *request);
