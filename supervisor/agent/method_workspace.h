/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Methods about workspaces. */

struct json_text;
struct jsonrpc_request;
struct client;
struct workspace;

/* Each answers @request, now or later. */
void method_workspace_open(struct client *client, struct jsonrpc_request *request);
void method_workspace_close(struct client *client, struct jsonrpc_request *request);
void method_workspace_remove(struct client *client, struct jsonrpc_request *request);

/** Writes the members of an object that every answer about @workspace has: name, kind and root. */
void method_workspace_put(struct json_text *json, const struct workspace *workspace);
