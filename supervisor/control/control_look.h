/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods that observers may call. */

struct jsonrpc_request;
struct session;

/* Methods: each answers @request. */
void control_status(struct session *session, struct jsonrpc_request *request);
void control_workspaces(struct session *session, struct jsonrpc_request *request);
void control_commands(struct session *session, struct jsonrpc_request *request);
void control_tenants(struct session *session, struct jsonrpc_request *request);
void control_show(struct session *session, struct jsonrpc_request *request);
