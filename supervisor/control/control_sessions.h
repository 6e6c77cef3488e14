/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* sessions. */

struct jsonrpc_request;
struct session;

void control_sessions(struct session *session, struct jsonrpc_request *request);
