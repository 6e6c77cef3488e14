/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of a budget of the host one tenant may hold: as much as it leaves free, so there is
 * something for others although it never gives anything back. (Choudhury and Hahne's dynamic
 * thresholds, 1998.) No part is set aside for tenants that never come, and no number of tenants
 * makes the parts too small to be of use. Pure.
 */

#include <stdbool.h>
#include <stdint.h>

/**
 * Returns how much more of @limit one may hold who holds @own, where all together hold @all, @own
 * included. One who does not share the budget may have the rest.
 */
static inline uint64_t share_left(bool shared, uint64_t limit, uint64_t all, uint64_t own)
{
	uint64_t taken = shared ? all + own : all;

	if (taken >= limit)
		return 0;
	return shared ? (limit - taken) / 2 : limit - taken;
}
