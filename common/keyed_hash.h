/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/text.h"

#include <stdint.h>

/**
 * Returns a hash of @text, the same each time in this process. It depends on a secret number, so
 * nobody outside can choose texts that share a bucket of a hash table.
 */
uint32_t keyed_hash(struct text text);
