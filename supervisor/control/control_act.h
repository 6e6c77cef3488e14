/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods that only administrators may call. */

struct jsonrpc_request;
struct client;

/* Methods: each answers @request. */
void control_kill(struct client *client, struct jsonrpc_request *request);
void control_drain(struct client *client, struct jsonrpc_request *request);
void control_resume(struct client *client, struct jsonrpc_request *request);
void control_reload(struct client *client, struct jsonrpc_request *request);
