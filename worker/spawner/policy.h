/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The part of the configuration that the spawner enforces itself, read from root's files. cloisterd
 * follows the same files. If cloisterd is taken over, the spawner still refuses directories outside
 * a tenant's roots, managed workspaces of tenants that have none, limits above the tenant's,
 * sockets of cells whose tenant has no network, and root inside where the tenant has none.
 */

#include "common/config/disk_classes.h"
#include "common/wire/wire_spawner.h"
#include "worker/spawner/cell/place.h"

struct policy;

/**
 * Opens the directory of the configuration at @path, before the spawner leaves the namespaces in
 * which the path is valid. Returns 0 or -errno.
 */
int policy_open(const char *path, struct policy **ret);

/**
 * Reads the files. A mistake in a key that is enforced here is logged and leaves the previous
 * policy in force. With @only_roots a file or directory that does not belong to the host's root is
 * a mistake. Returns 0 or -errno.
 */
int policy_read(struct policy *policy, bool only_roots);

/* A managed workspace, identified by its place. */
struct policy_place {
	const char *tenant; /* its tenant */
	int directory;      /* directory of the managed workspaces */
};

/**
 * Checks whether a tenant (of @request, if it names one) may have the directory @place as a
 * workspace with the limits of @request. In system mode the file system that reports the
 * directory's owner must be trusted too: it must be the file system of the tenant's root, and local
 * unless the tenant has network_roots. @managed describes a managed workspace, or is NULL. Returns
 * 0, also without a policy (NULL), or -SPAWNER_REFUSAL with the reason in @ret_reason (static
 * storage).
 */
int policy_check(const struct policy *policy, const struct place *place,
	const struct policy_place *managed, const struct spawner_open *request,
	const char **ret_reason);

/**
 * Returns the tenant's readonly_paths, one a line; "" if there are none, or no such tenant or
 * policy. Valid until the next policy_read().
 */
const char *policy_readonly_paths(const struct policy *policy, const char *name);

/** Whether the tenant @name may have managed workspaces. Without a policy (NULL) all may. */
bool policy_managed(const struct policy *policy, const char *name);

/** Whether the tenant @name has network = egress. */
bool policy_network(const struct policy *policy, const char *name);

/** Whether the tenant @name has command_filters = allow; without a configuration it has not. */
bool policy_allows_filters(const struct policy *policy, const char *name);

/** Whether the tenant @name has root_inside = yes. */
bool policy_root_inside(const struct policy *policy, const char *name);

/* Bytes that templates in memory may take: of all tenants, and of one. */
struct policy_templates {
	uint64_t host_bytes, bytes;
	size_t tenants; /* tenants that share host_bytes; 1: it is enough for all of them */
};

/**
 * Returns the limits of the tenant @name. Without a policy (NULL), or such a tenant, it is nothing.
 */
struct policy_templates policy_templates(const struct policy *policy, const char *name);

/* The policy on the homes of a tenant's workspaces. */
struct policy_home {
	bool is_kept;
	uint64_t bytes;     /* of each; 0: there is no such tenant */
	uint64_t max_homes; /* workspaces_existing */
};

/**
 * Returns the policy on the homes of the tenant @name. Without a policy (NULL) they are temporary.
 */
struct policy_home policy_home(const struct policy *policy, const char *name);

/**
 * Returns the ids, of a range of @count, for managed workspaces of the tenant @name: the ids of its
 * disk class at the start. Without a policy (NULL) all.
 */
struct id_span policy_ids(const struct policy *policy, const char *name, uint32_t count);
