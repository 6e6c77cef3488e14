/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct jsonrpc_request;
struct metrics_text;
struct service;
struct client;

/* Method: answers @request. */
void control_health(struct client *client, struct jsonrpc_request *request);

/** Adds the metrics of health. */
void control_health_metrics(const struct metrics_text *out, const struct service *service);
