/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.checkpoint, .checkpoints and .rollback. */

struct jsonrpc_request;
struct session;

/* Each answers @request, now or later. */
void method_workspace_checkpoint(struct session *session, struct jsonrpc_request *request);
void method_workspace_checkpoints(struct session *session, struct jsonrpc_request *request);
void method_workspace_rollback(struct session *session, struct jsonrpc_request *request);
