/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Times of the host's clock, for what is due then. An administrator may set that clock, and timers
 * (timer.h) do not notice. CLOCK_REALTIME, RFC 3339.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

/** Returns milliseconds since the epoch, as the host's clock said at the last look at it. */
int64_t unix_now_ms(void);
/** Looks at the host's clock. Returns by how many milliseconds it was set since the last look. */
int64_t unix_look(void);

#define RFC3339_BYTES sizeof("2026-01-01T00:00:00.000Z")
/** Writes a time of the years 1970 to 9999 as RFC 3339 has it, in UTC. */
void rfc3339_put(int64_t unix_ms, char ret[RFC3339_BYTES]);
/** The same in whole seconds. Returns @ret; NULL if @unix_ms is not after 1970. */
const char *rfc3339_seconds(int64_t unix_ms, char ret[RFC3339_BYTES]);
/** Reads one, of any zone. Returns false if @text is none, or not of those years. */
bool rfc3339_read(struct text text, int64_t *ret_ms);
