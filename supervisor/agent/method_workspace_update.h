/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct jsonrpc_request;
struct client;

/** workspace.update: what a managed workspace keeps beside its files. */
void method_workspace_update(struct client *client, struct jsonrpc_request *request);
