/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* workspace.diff. */

struct jsonrpc_request;
struct session;

/* Answers @request, now or later. */
void method_workspace_diff(struct session *session, struct jsonrpc_request *request);
