/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* OpenMetrics text, or Prometheus's own. */

struct jsonrpc_request;
struct session;

/** Answers @request. */
void control_metrics(struct session *session, struct jsonrpc_request *request);
