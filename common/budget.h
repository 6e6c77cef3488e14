/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A limit that several tenants share. A tenant may hold as much as it leaves free (Choudhury and
 * Hahne's dynamic thresholds, 1998), so a tenant that gives nothing back leaves something to the
 * next one. Many tenants together could leave almost nothing. So each may always hold a small
 * floor, and part of the bound is kept for these floors. A single tenant may hold the whole bound.
 * Pure.
 *
 * Every sum over tenants that is compared with a limit is compared here.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget {
	uint64_t bound; /* of all tenants together */
	uint64_t held;  /* by all of them */
	uint64_t floor; /* the floor of each tenant */
	bool shared;    /* by more than one tenant */
	uint64_t kept;  /* of the bound, for the floors of all */
};

/**
 * Returns how much more of @limit a tenant may hold that holds @own already. All tenants together
 * hold @all, @own included. A tenant that does not share the limit may have all that is left.
 */
static inline uint64_t share_left(bool shared, uint64_t limit, uint64_t all, uint64_t own)
{
	uint64_t taken = shared ? all + own : all;

	if (taken >= limit)
		return 0;
	return shared ? (limit - taken) / 2 : limit - taken;
}

/**
 * Sets the bound, for @tenants. The floors of all tenants together take a quarter of the bound at
 * most: with many tenants a floor is less than @floor. What is held stays held.
 */
static inline void budget_set(struct budget *budget, uint64_t bound, size_t tenants, uint64_t floor)
{
	budget->bound = bound;
	budget->shared = tenants > 1;
	budget->floor = budget->shared && floor > bound / 4 / tenants ? bound / 4 / tenants : floor;
	budget->kept = budget->shared ? budget->floor * tenants : 0;
}

/** Returns how much more a tenant may hold that holds @own. */
static inline uint64_t budget_left(const struct budget *budget, uint64_t own)
{
	uint64_t left = share_left(budget->shared, budget->bound - budget->kept, budget->held, own);
	uint64_t of_floor = budget->shared && own < budget->floor ? budget->floor - own : 0;

	return left > of_floor ? left : of_floor;
}

/** A tenant that holds *@own takes @more of the limit or, if @more is negative, gives it back. */
static inline void budget_take(struct budget *budget, uint64_t *own, int64_t more)
{
	budget->held += (uint64_t)more;
	*own += (uint64_t)more;
}
