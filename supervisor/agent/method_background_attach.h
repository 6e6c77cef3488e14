/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* session.attach and session.detach: the output of a session is sent as it comes. */

struct jsonrpc_request;
struct session;

void method_session_attach(struct session *session, struct jsonrpc_request *request);
void method_session_detach(struct session *session, struct jsonrpc_request *request);
