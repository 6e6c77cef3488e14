/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tenant: its users, the directories that they may open, and their limits. It is made from one
 * section of the configuration (config_load.c) and never changed: a reload makes new ones, and
 * calls that began under an old one keep a reference to it. Without policy everything is denied: a
 * tenant without users and groups admits no client, one without roots opens no directory.
 */

#include "supervisor/config/config_sections.h"

#include <stddef.h>

struct directory_id;

/**
 * Makes a tenant that admits no client, with the defaults of all settings and without a policy.
 * Returns NULL if memory is out.
 */
struct tenant *tenant_new(const char *name);

struct tenant *tenant_hold(struct tenant *tenant);
/** NULL is allowed. */
void tenant_release(struct tenant *tenant);

/** Returns "temporary" or "kept": the home of its workspaces. Static. */
const char *tenant_home_name(const struct tenant *tenant);

/**
 * Whether a directory is one of the tenant's roots or lies below one. @ids are the directory and
 * its @n - 1 parents (directory_parents_list). Only ids are compared, so symbolic links and second
 * names do not matter, and no path is looked up.
 */
bool tenant_allows_root(const struct tenant *tenant, const struct directory_id *parents, size_t n);

/**
 * Finds the root that @path (absolute) lies below, by comparing whole components of the text.
 * Stores where in @path the part below the root begins; "" for the root itself. Returns NULL if
 * there is none.
 */
const struct tenant_root *tenant_root_of(
	const struct tenant *tenant, const char *path, const char **ret_rest);
