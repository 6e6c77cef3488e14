/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.freeze and workspace.fork, template.list and template.remove. */

struct jsonrpc_request;
struct client;

/* Each answers @request, later or now. */
void method_workspace_freeze(struct client *client, struct jsonrpc_request *request);
void method_workspace_fork(struct client *client, struct jsonrpc_request *request);
void method_template_list(struct client *client, struct jsonrpc_request *request);
void method_template_remove(struct client *client, struct jsonrpc_request *request);
