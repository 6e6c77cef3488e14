/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration for the rest of cloisterd. It is read completely or not at all and never
 * changed afterwards. A reload makes a new one (config_reload.h); parts that still need the old one
 * hold a reference.
 */

#include "supervisor/config/tenant.h"

struct config {
	unsigned references;
	struct config_host host;
	struct tenant **tenants; /* in the order of the files */
	size_t n_tenants;
	bool from_file; /* otherwise user mode with one tenant */
};

/**
 * Makes the configuration of user mode without a file: one tenant called @name with the user @uid,
 * which may open any directory that this user can. Returns NULL if memory is out.
 */
struct config *config_user_mode(const char *name, uid_t uid);

/** Makes a configuration with the defaults and without tenants. Returns NULL if memory is out. */
struct config *config_new(void);

/** Appends @tenant. Takes its reference, also on failure. Returns 0 or -ENOMEM. */
int config_add_tenant(struct config *config, struct tenant *tenant);

struct config *config_hold(struct config *config);
/** NULL is allowed. */
void config_release(struct config *config);

/** Reads the disk classes of @host, which have been checked. */
void config_disk_classes(const struct config_host *host, struct disk_classes *ret);

/** Returns how many workspaces all tenants together may have in use at once. */
uint64_t config_workspaces(const struct config *config);

/** Returns the largest number of inotify watches that a workspace may have; never 0. */
uint64_t config_most_watches(const struct config *config);

/** Whether a tenant has network = egress. */
bool config_has_network(const struct config *config);

/** Whether a tenant has root_inside = yes. */
bool config_has_root_inside(const struct config *config);

struct tenant *config_find_tenant(const struct config *config, const char *name);
