/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Handlers of the table in agent_endpoint.c. Handlers whose files also have functions for others
 * are in those files' headers. Each answers @request, now or later.
 */

struct client;
struct jsonrpc_request;

/* method_bind.c: connection.bind. */
void method_connection_bind(struct client *client, struct jsonrpc_request *request);

/* method_workspace_list.c, method_workspace_update.c, method_forward.c: workspace.list and so on.
 */
void method_workspace_list(struct client *client, struct jsonrpc_request *request);
void method_workspace_update(struct client *client, struct jsonrpc_request *request);
void method_workspace_forward(struct client *client, struct jsonrpc_request *request);

/* method_file.c: file.stat and the other methods of files. */
void method_file(struct client *client, struct jsonrpc_request *request);

/* session/method_session.c, method_session_read.c, method_session_attach.c: session.start ... */
void method_session_start(struct client *client, struct jsonrpc_request *request);
void method_session_write(struct client *client, struct jsonrpc_request *request);
void method_session_end(struct client *client, struct jsonrpc_request *request);
void method_session_list(struct client *client, struct jsonrpc_request *request);
void method_session_read(struct client *client, struct jsonrpc_request *request);
void method_session_attach(struct client *client, struct jsonrpc_request *request);
void method_session_detach(struct client *client, struct jsonrpc_request *request);
