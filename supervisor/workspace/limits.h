/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a tenant's limits come to on this machine, of whose memory some is left to others. */

#include "common/cell_limits.h"

struct tenant_limits;

/** Of one workspace with all that runs in it. */
struct workspace_limits limits_of_workspace(const struct tenant_limits *limits);

/** Of one command. */
struct command_limits limits_of_command(const struct tenant_limits *limits);
