/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The method that reports which features the host lacks. */

struct jsonrpc_request;
struct client;

/** Answers @request. */
void control_doctor(struct client *client, struct jsonrpc_request *request);
