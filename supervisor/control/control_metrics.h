/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* OpenMetrics text, or Prometheus's own. */

struct jsonrpc_request;
struct client;

/** Answers @request. */
void control_metrics(struct client *client, struct jsonrpc_request *request);
