/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers of a configuration, for cloisterd and cloister-spawner alike. */

#include "common/config/config_type.h"

#include <stdint.h>

/** @value, written as @type has it ("4G", "30s", "150%", "0660"). 0; -EINVAL: it has not that form;
 * -ERANGE: it does not fit 64 bits. */
int config_number(enum config_type type, const char *value, uint64_t *ret);
