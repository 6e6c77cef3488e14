/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct jsonrpc_request;
struct session;

/** workspace.update: what a managed workspace keeps beside its files. */
void method_workspace_update(struct session *session, struct jsonrpc_request *request);
