/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CRC-32C (RFC 3720, B.4): by the processor's instruction where it has one, or by tables. */

#include <stddef.h>
#include <stdint.h>

/** Returns the CRC of what has the CRC @value, 0 for nothing, followed by @len bytes. */
uint32_t journal_crc(uint32_t value, const void *data, size_t len);

/** The same, by tables on any processor. */
uint32_t journal_crc_by_tables(uint32_t value, const void *data, size_t len);
