/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts the wrong keys and unknown sandbox ids that each address has tried in the last minute. A
 * valid key is never refused for the failures of others: the limit bounds the CPU time and log
 * lines of guessing.
 */

#include <stdbool.h>
#include <stdint.h>

struct gate_failures;

/* An address: an IPv4 address mapped into IPv6, or the first 64 bits of one of IPv6. */
struct gate_peer {
	uint8_t bytes[16];
};

/** NULL if memory is out. */
struct gate_failures *gate_failures_new(void);
void gate_failures_free(struct gate_failures *failures);

/** Counts a failure at @now_ms. Returns how many the address has had in this minute. */
uint64_t gate_failures_count(
	struct gate_failures *failures, const struct gate_peer *peer, int64_t now_ms);

/** Returns how many failures the address has had in this minute. */
uint64_t gate_failures_have(
	const struct gate_failures *failures, const struct gate_peer *peer, int64_t now_ms);
