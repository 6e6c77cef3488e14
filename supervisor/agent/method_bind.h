/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* connection.bind: a connection acts for one tenant, and on one workspace, from then on. */

struct jsonrpc_request;
struct client;

void method_connection_bind(struct client *client, struct jsonrpc_request *request);
