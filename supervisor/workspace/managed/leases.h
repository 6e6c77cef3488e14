/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The leases of managed workspaces, of those in use and of all others: when each ends, as its
 * properties on disk say. A lease that ended while cloisterd was down ends at once. The callback of
 * leases_tell() ends what runs in the workspace; if it cannot yet, it is called again later.
 *
 * Runs in cloisterd. Clients decide when leases end.
 */

#include "supervisor/workspace/managed/properties.h"

struct config;
struct leases;
struct tenant;
struct workspaces;

/** Returns NULL if memory is out. */
struct leases *leases_new(struct workspaces *workspaces);
void leases_free(struct leases *leases);

/**
 * The lease of @tenant's workspace @name has ended. Returns in how many milliseconds its end is to
 * be tried again; 0: the lease is forgotten here.
 */
typedef int64_t (*lease_ended)(
	void *context, const char *tenant, const char *name, const struct lease *lease);
/** From here on, leases end; until then none does. */
void leases_tell(struct leases *leases, lease_ended ended, void *context);

/** The lease of @tenant's workspace @name is @lease now, which may be none. */
void leases_set(
	struct leases *leases, struct tenant *tenant, const char *name, const struct lease *lease);
void leases_forget(struct leases *leases, const struct tenant *tenant, const char *name);

/**
 * Reads the leases of the tenants of @config from the disk, in slices. @tidies: no other generation
 * makes workspaces, and properties of those that are gone are forgotten.
 */
void leases_look(struct leases *leases, const struct config *config, bool tidies);

/**
 * Another generation serves and may change leases, so the leases of workspaces in use are read
 * often.
 */
void leases_retire(struct leases *leases);
