/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* MCP's tools/call: brought to tool.call's form, and answered in its own. */

struct jsonrpc_request;
struct client;

/* Methods: each answers @request, now or later. */
void mcp_tools_call(struct client *client, struct jsonrpc_request *request);
void mcp_cancelled(struct client *client, struct jsonrpc_request *request);
