/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sizes as people read them. */

#include <stddef.h>

#define AMOUNT_BYTES 16 /* a buffer that every amount fits in */

/**
 * Formats @bytes in at most six characters: "987", "12.3K", "4.5G", in powers of 1,024. A negative
 * number means that the amount is unknown, and becomes "-". Returns @buffer.
 */
const char *amount(long long bytes, char buffer[AMOUNT_BYTES]);
