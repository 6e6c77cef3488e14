/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.freeze and workspace.fork, template.list and template.remove. */

struct jsonrpc_request;
struct session;

/* Each answers @request, later or now. */
void method_workspace_freeze(struct session *session, struct jsonrpc_request *request);
void method_workspace_fork(struct session *session, struct jsonrpc_request *request);
void method_template_list(struct session *session, struct jsonrpc_request *request);
void method_template_remove(struct session *session, struct jsonrpc_request *request);
