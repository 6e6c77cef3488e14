/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The agent socket: its methods. */

#include "supervisor/connection/endpoint.h"

extern const struct endpoint agent_endpoint;

/** The methods of a connection that speaks only MCP. */
extern const struct endpoint mcp_endpoint;
