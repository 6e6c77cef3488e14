/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The methods of the protocol's sessions, which are background commands here
 * (supervisor/session/session.h), but session.read and what method_session_tell.h has.
 */

struct client;
struct jsonrpc_request;

void method_session_start(struct client *client, struct jsonrpc_request *request);
void method_session_write(struct client *client, struct jsonrpc_request *request);
void method_session_end(struct client *client, struct jsonrpc_request *request);
void method_session_list(struct client *client, struct jsonrpc_request *request);
