/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The name of a call for people and files: its number in 16 hexadecimal digits. */

#include "common/text.h"

#include <stdint.h>

#define CALL_NAME_BYTES 17 /* with the NUL */

/** Writes the name of the call @id. Returns @buffer. */
const char *call_name(uint64_t id, char buffer[static CALL_NAME_BYTES]);

/**
 * Stores the number of the call called @name, which must be exactly as call_name() writes it.
 * Returns 0 or -EINVAL.
 */
int call_name_parse(struct text name, uint64_t *ret_id);
