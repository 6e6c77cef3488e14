/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.diff. */

#include <stdbool.h>
#include <stdint.h>

struct call_request;
struct json_object;
struct json_text;
struct jsonrpc_request;
struct observation;
struct client;
struct tenant;

/* Answers @request, now or later. */
/**
 * Makes a request for what has changed since the checkpoint @since of a workspace of @tenant;
 * @params: of the client's request, or NULL. Returns 0 or -ENOMEM.
 */
int diff_request(struct json_object *params, struct tenant *tenant, int64_t since, bool patch,
	struct call_request *ret);

/** Writes the members of a result. */
void diff_write(struct json_text *json, const struct observation *observation);

void method_workspace_diff(struct client *client, struct jsonrpc_request *request);
