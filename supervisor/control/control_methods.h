/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The handlers of the table in control_endpoint.c, which says for each who may call it. Each
 * answers @request.
 */

struct client;
struct jsonrpc_request;

/* control_look.c */
void control_status(struct client *client, struct jsonrpc_request *request);
void control_workspaces(struct client *client, struct jsonrpc_request *request);
void control_commands(struct client *client, struct jsonrpc_request *request);
void control_tenants(struct client *client, struct jsonrpc_request *request);
void control_show(struct client *client, struct jsonrpc_request *request);

/* control_act.c */
void control_kill(struct client *client, struct jsonrpc_request *request);
void control_drain(struct client *client, struct jsonrpc_request *request);
void control_resume(struct client *client, struct jsonrpc_request *request);
void control_reload(struct client *client, struct jsonrpc_request *request);

/* control_doctor.c, control_health.c, control_metrics.c, control_sessions.c */
void control_doctor(struct client *client, struct jsonrpc_request *request);
void control_health(struct client *client, struct jsonrpc_request *request);
void control_metrics(struct client *client, struct jsonrpc_request *request);
void control_sessions(struct client *client, struct jsonrpc_request *request);

/* control_templates.c */
void control_templates(struct client *client, struct jsonrpc_request *request);
void control_template_import(struct client *client, struct jsonrpc_request *request);
void control_template_remove(struct client *client, struct jsonrpc_request *request);
