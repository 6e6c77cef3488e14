/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* templates, template.import and template.remove. */

struct jsonrpc_request;
struct session;

void control_templates(struct session *session, struct jsonrpc_request *request);
void control_template_import(struct session *session, struct jsonrpc_request *request);
void control_template_remove(struct session *session, struct jsonrpc_request *request);
