/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent socket: what agents may ask for. */

#include "supervisor/rpc/endpoint.h"

extern const struct endpoint agent_endpoint;

/** What a connection that speaks nothing but MCP may ask for. */
extern const struct endpoint mcp_endpoint;
