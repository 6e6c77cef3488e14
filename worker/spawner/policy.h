/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: what the configuration allows workspaces to be, read by the spawner itself from
 * the files that root owns. cloisterd decides by the same files; should it be taken over, what it
 * asks beyond them is refused here: other directories than below a tenant's roots, managed
 * workspaces of tenants that have none, more of the host than the tenant may use.
 */

#include "common/wire_spawner.h"
#include "worker/spawner/place.h"

struct policy;

/** Opens where the configuration at @path lies, before the spawner leaves the namespaces in which
 * that name holds. 0 or -errno. */
int policy_open(const char *path, struct policy **ret);

/**
 * Reads the files, all of them or, on any mistake in what is enforced here, none: what held before
 * then holds further. With @only_roots a file or directory that is not host root's is a mistake.
 * 0, or -errno, the mistakes having been logged.
 */
int policy_read(struct policy *policy, bool only_roots);

/* Of a directory that is a managed workspace by its place. */
struct policy_managed {
	const char *tenant; /* whose */
	int directory;      /* where managed workspaces lie */
};

/**
 * Whether a tenant, the one that @request names if it does, may have the directory @place as a
 * workspace with the limits of @request, and in system mode whether whoever says whose it is may do
 * so: the file system of the tenant's root, which must be a local one unless the tenant has
 * network_roots. @managed: of a managed workspace, or NULL. 0, or -SPAWNER_REFUSAL and why in
 * @ret_reason (static storage). Without a policy (NULL), 0.
 */
int policy_check(const struct policy *policy, const struct place *place,
	const struct policy_managed *managed, const struct spawner_open *request,
	const char **ret_reason);

/** The directories, one a line, that the tenant called @name shows its commands read-only: "" for
 * none, for no such tenant and without a policy. They stay until the next policy_read. */
const char *policy_readonly_paths(const struct policy *policy, const char *name);
