/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The method that reports which features the host lacks. */

struct jsonrpc_request;
struct session;

/** Answers @request. */
void control_doctor(struct session *session, struct jsonrpc_request *request);
