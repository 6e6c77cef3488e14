/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods that observers may call. */

struct jsonrpc_request;
struct client;

/* Methods: each answers @request. */
void control_status(struct client *client, struct jsonrpc_request *request);
void control_workspaces(struct client *client, struct jsonrpc_request *request);
void control_commands(struct client *client, struct jsonrpc_request *request);
void control_tenants(struct client *client, struct jsonrpc_request *request);
void control_show(struct client *client, struct jsonrpc_request *request);
