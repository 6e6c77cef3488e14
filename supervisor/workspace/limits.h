/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Computes the limits of workspaces and commands from a tenant's limits and the machine's memory.
 */

#include "common/cell_limits.h"

struct tenant_limits;

/** Returns the limits of one workspace with all its processes. */
struct workspace_limits limits_of_workspace(const struct tenant_limits *limits);

/** Returns the limits of one command. */
struct command_limits limits_of_command(const struct tenant_limits *limits);
