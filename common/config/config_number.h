/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers in a configuration, for cloisterd and the spawner. */

#include "common/config/config_type.h"

#include <stdint.h>

/**
 * Parses @value, written as @type requires ("4G", "30s", "150%", "0660"). Returns 0, -EINVAL if it
 * does not have that form, or -ERANGE if it does not fit 64 bits.
 */
int config_number(enum config_type type, const char *value, uint64_t *ret);
