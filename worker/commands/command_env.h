/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/text.h"

#include <stddef.h>

/**
 * The environment of a command: the base that every command gets (nothing of the host's), then the
 * NAME=VALUE strings in @extra, each ended by a NUL, which replace those of the same name. @home
 * becomes HOME. The strings are borrowed from @extra. 0 and an array that the caller frees with
 * free(), -EBADMSG for a malformed @extra, -ENOMEM.
 */
int command_env_build(const char *home, struct text extra, char ***ret_env);
