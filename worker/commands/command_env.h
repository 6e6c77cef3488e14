/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

/**
 * Builds the environment of a command. It holds nothing of the host's environment: a fixed base,
 * then the NAME=VALUE strings in @extra, each with a NUL at its end, which replace entries of the
 * same name. @home becomes HOME; @root_inside: the user is called root; @no_network tells clients
 * not to try again; @has_terminal: it is for somebody at a terminal, with pager and editor. The
 * strings are borrowed from @extra. Returns 0 and an array for the caller to free(), -EBADMSG for a
 * malformed @extra, or -ENOMEM.
 */
int command_env_build(const char *home, bool root_inside, bool no_network, bool has_terminal,
	struct text extra, char ***ret_env);
