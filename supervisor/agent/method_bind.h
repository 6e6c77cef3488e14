/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* connection.bind: a connection acts for one tenant, and on one workspace, from then on. */

struct jsonrpc_request;
struct session;

void method_connection_bind(struct session *session, struct jsonrpc_request *request);
