/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* templates, template.import and template.remove. */

struct jsonrpc_request;
struct client;

void control_templates(struct client *client, struct jsonrpc_request *request);
void control_template_import(struct client *client, struct jsonrpc_request *request);
void control_template_remove(struct client *client, struct jsonrpc_request *request);
