/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.freeze and workspace.fork, template.list and template.remove. */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>

struct json_object;
struct jsonrpc_request;
struct client;
struct refusal;
struct tenant;

/* Each answers @request, later or now. */
void method_workspace_freeze(struct client *client, struct jsonrpc_request *request);
void method_workspace_fork(struct client *client, struct jsonrpc_request *request);
void method_template_list(struct client *client, struct jsonrpc_request *request);
void method_template_remove(struct client *client, struct jsonrpc_request *request);

/** Removes a template, for an agent or an administrator; or refuses, with the reason. */
enum tool_error template_remove_for(struct client *client, struct tenant *tenant, struct text name,
	struct refusal *ret_refusal);
#define REPLACE_IS "replace must be true or false"

/** Stores whether the parameter replace is true. Returns false if it is no boolean: REPLACE_IS. */
bool template_replace_param(struct json_object *params, bool *ret);

/** Answers @request, which has an id, that it was removed. */
void template_answer_removed(struct client *client, const struct jsonrpc_request *request,
	const struct tenant *tenant, struct text name);
