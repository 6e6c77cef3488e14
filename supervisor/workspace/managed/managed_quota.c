// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Looks only at names in the state directory, which only cloisterd writes. */
#include "supervisor/workspace/managed/managed_quota.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/id_range.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/templates/templates.h"

#include <stdio.h>
#include <string.h>

#define CLEARING_MS       200  /* after which some of what is removed may have been cleared */
#define EXISTING_COUNT_MS 1000 /* before a tenant's managed workspaces are counted again */
#define COUNT_PART        20   /* counting takes at most this part of the time */

static const struct config *current;

static void count_one(void *context, const char *name)
{
	size_t *count = context;

	(void)name;
	++*count;
}

static int count_managed(int managed_fd, const struct tenant *tenant)
{
	struct tenant_usage *usage = tenant->usage;
	const uint64_t began_ms = monotonic_ms();
	size_t existing = 0, removed = 0;
	int r = managed_each(managed_fd, tenant, count_one, &existing);

	if (r == 0)
		r = managed_each_removed(managed_fd, tenant, count_one, &removed);
	if (r < 0)
		return r;
	usage->existing = existing;
	usage->removed = removed;
	usage->templates = templates_count(managed_fd, tenant);
	usage->existing_ms = monotonic_ms();
	usage->existing_rest_ms = (usage->existing_ms - began_ms) * COUNT_PART;
	if (usage->existing_rest_ms < EXISTING_COUNT_MS)
		usage->existing_rest_ms = EXISTING_COUNT_MS;
	return 0;
}

void managed_quota_count(int managed_fd, const struct config *config)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->managed)
			(void)count_managed(managed_fd, config->tenants[i]);
}

void managed_quota_follow(int managed_fd, const struct config *config)
{
	current = config;
	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->managed && config->tenants[i]->usage->existing_ms == 0)
			(void)count_managed(managed_fd, config->tenants[i]);
}

const struct tenant *managed_quota_tenant(struct text directory)
{
	for (size_t i = 0; current && i < current->n_tenants; i++)
		if (text_equal(directory, text_from(tenant_directory(current->tenants[i]))))
			return current->tenants[i];
	return NULL;
}

/*
 * Returns the number of ids for managed workspaces of @tenant, without the self-test's; 0 in user
 * mode, which needs none.
 */
static size_t ids(const struct tenant *tenant)
{
	const struct id_range *range = id_range();

	if (!range)
		return 0;
	return (tenant->disk.ids > 0 ? tenant->disk.ids
				     : disk_classes_managed(range->count).count) -
	       1;
}

/* Whether the two take their ids from the same ones. */
static bool shares_ids(const struct tenant *a, const struct tenant *b)
{
	return strcmp(a->disk.name, b->disk.name) == 0;
}

static size_t taken(const struct tenant_usage *usage)
{
	return usage->existing + usage->removed + usage->forks_awaited;
}

/* Whether the tenant would take more than its share of the ids that are left. */
static bool exceeds_share(const struct tenant *tenant, size_t more)
{
	size_t total = 0, tenants = 0, share, n = ids(tenant);

	for (size_t i = 0; n > 0 && current && i < current->n_tenants; i++) {
		if (!shares_ids(current->tenants[i], tenant))
			continue;
		total += taken(current->tenants[i]->usage);
		tenants += current->tenants[i]->managed;
	}
	if (tenants < 2 || total + more <= n / 2)
		return false;
	share = n / 2 / tenants;
	return taken(tenant->usage) + more > (share > 0 ? share : 1);
}

static const char *excess(const struct tenant *tenant, size_t more)
{
	if (taken(tenant->usage) + more > tenant->limits.workspaces_existing)
		return more == 1 ? "which is its limit" : "and would have more than its limit";
	if (exceeds_share(tenant, more))
		return "which is its share of the ids that are left, because half of the host's "
		       "ids for managed workspaces are in use";
	return NULL;
}

/* Whether so many more would fit if those that are removed had been cleared. */
static bool fits_without(const struct tenant *tenant, size_t more)
{
	const size_t removed = tenant->usage->removed;
	const char *why;

	tenant->usage->removed = 0;
	why = excess(tenant, more);
	tenant->usage->removed = removed;
	return !why;
}

enum tool_error managed_quota_check(
	int managed_fd, const struct tenant *tenant, struct refusal *ret_refusal)
{
	return managed_quota_check_many(managed_fd, tenant, 1, ret_refusal);
}

enum tool_error managed_quota_check_many(
	int managed_fd, const struct tenant *tenant, size_t more, struct refusal *ret_refusal)
{
	const struct tenant_usage *usage = tenant->usage;
	bool counted = usage->existing_ms != 0;
	const char *why = counted ? excess(tenant, more) : NULL;

	/*
	 * An administrator may have removed workspaces by hand, so count again, but not too often.
	 */
	if (!counted || (why && monotonic_ms() - usage->existing_ms >= usage->existing_rest_ms)) {
		if (count_managed(managed_fd, tenant) < 0)
			return refusal_set(ret_refusal, TOOL_BUSY, NULL);
		why = excess(tenant, more);
	}
	if (!why)
		return TOOL_OK;
	if (fits_without(tenant, more)) {
		refusal_format(ret_refusal, TOOL_BUSY,
			"The files of %zu removed workspaces are still being cleared, and count "
			"like workspaces until then: try again",
			usage->removed);
		ret_refusal->retry_after_ms = CLEARING_MS;
		return TOOL_BUSY;
	}
	return refusal_format(ret_refusal, TOOL_QUOTA_EXCEEDED,
		"The tenant has %zu managed workspaces, %s; remove some with workspace.remove, or "
		"ask the administrator of the service",
		taken(usage), why);
}
