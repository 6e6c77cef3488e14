/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Goes through a directory of each of many tenants, in slices of each tenant's share of the loop.
 */

#include "supervisor/schedule/loop_share.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct tenant;
struct tenant_look;

struct tenant_walk_owner {
	/* Opens the directory of @tenant. *ret stays NULL if there is none. */
	void (*open)(void *context, const struct tenant *tenant, DIR **ret);
	/* Returns the next name; NULL at the end, or when *left (names, counted down) is 0. */
	const char *(*next)(DIR *directory, size_t *left);
	/* It has the name @found, which is valid until the next one. */
	void (*found)(void *context, struct tenant *tenant, DIR *directory, const char *found,
		bool again);
	/* All of its names were found. NULL: nothing to do. */
	void (*ended)(void *context, struct tenant *tenant);
};

struct tenant_walk {
	const struct tenant_walk_owner *owner;
	void *context;
	struct loop_share_task slice;
	STAILQ_HEAD(, tenant_look) looks;
};

void tenant_walk_init(
	struct tenant_walk *walk, const struct tenant_walk_owner *owner, void *context);

/** Adds @tenant; @again is for the owner. Without memory it is left out. */
void tenant_walk_add(struct tenant_walk *walk, struct tenant *tenant, bool again);

/** Ends it before its end. */
void tenant_walk_done(struct tenant_walk *walk);
