/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* session.read. */

struct jsonrpc_request;
struct client;

/** Answers @request, now or later. */
void method_session_read(struct client *client, struct jsonrpc_request *request);
