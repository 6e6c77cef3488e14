/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sessions. */

struct jsonrpc_request;
struct client;

void control_sessions(struct client *client, struct jsonrpc_request *request);
