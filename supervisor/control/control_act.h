/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The methods that only administrators may call. */

struct jsonrpc_request;
struct session;

/* Methods: each answers @request. */
void control_kill(struct session *session, struct jsonrpc_request *request);
void control_drain(struct session *session, struct jsonrpc_request *request);
void control_resume(struct session *session, struct jsonrpc_request *request);
void control_reload(struct session *session, struct jsonrpc_request *request);
