/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* session.attach and session.detach: the output of a session is sent as it comes. */

struct jsonrpc_request;
struct client;

void method_session_attach(struct client *client, struct jsonrpc_request *request);
void method_session_detach(struct client *client, struct jsonrpc_request *request);
