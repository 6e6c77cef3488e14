// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Each lease has a timer. Timers count the time of the monotonic clock, so all
 * are set again when the host's clock was set. Clients decide when leases end, and may let all end
 * at one moment: what reads or changes files is done in slices of the tenant's share of the loop.
 */
#include "supervisor/workspace/managed/leases.h"

#include "common/cleanup.h"
#include "common/keyed_hash.h"
#include "common/links.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/unix_time.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/managed/managed.h"
#include "supervisor/workspace/managed/properties_store.h"
#include "supervisor/workspace/managed/tenant_walk.h"
#include "supervisor/workspace/templates/forking.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LISTS           4096 /* by name */
#define RETIRED_LOOK_MS 1000 /* between looks at what another generation has changed */
#define CLOCK_SET_MS    50   /* less than this is drift */

struct kept_lease {
	LIST_ENTRY(kept_lease) entry;
	struct leases *leases;
	struct tenant *tenant; /* held, as it was configured */
	struct timer timer;
	struct loop_share_task slice; /* when its time is over */
	struct lease lease;
	char name[];
};

struct leases {
	struct workspaces *workspaces;
	LIST_HEAD(, kept_lease) lists[LISTS];
	size_t count;
	struct tenant_walk reading;
	struct timer clock;
	bool retired;
	lease_ended ended; /* NULL: nobody is told */
	void *context;
};

static unsigned list_of(const char *name)
{
	return keyed_hash(text_from(name)) % LISTS;
}

static struct kept_lease *find_kept_lease(
	const struct leases *leases, const char *tenant, const char *name)
{
	struct kept_lease *kept;

	LIST_FOREACH (kept, &leases->lists[list_of(name)], entry)
		if (strcmp(kept->name, name) == 0 && strcmp(kept->tenant->name, tenant) == 0)
			return kept;
	return NULL;
}

static void drop_lease(struct kept_lease *kept)
{
	timer_cancel(&kept->timer);
	loop_share_cancel(&kept->slice);
	LIST_REMOVE(kept, entry);
	kept->leases->count--;
	kept->tenant->usage->leases--;
	tenant_release(kept->tenant);
	free(kept);
}

static void wait(struct kept_lease *kept)
{
	const int64_t left = kept->lease.ends_ms - unix_now_ms();

	timer_set(&kept->timer, left > 0 ? left : 0);
}

/* Another generation may have changed the lease. Returns whether it ends later, or not at all. */
static bool is_changed(struct kept_lease *kept)
{
	const struct lease was = kept->lease;
	struct properties properties;

	if (properties_load(kept->leases->workspaces->managed_fd, kept->tenant, kept->name,
		    &properties) < 0)
		return false;
	kept->lease = properties.lease;
	properties_done(&properties);
	if (kept->lease.ends_ms == was.ends_ms)
		return false;
	if (kept->lease.ends_ms == 0)
		drop_lease(kept);
	else
		wait(kept);
	return true;
}

static void end_leases(void *context)
{
	struct kept_lease *kept = context;
	struct leases *leases = kept->leases;
	_cleanup_free_ char *tenant = strdup(kept->tenant->name), *name = strdup(kept->name);
	struct lease lease = kept->lease;
	int64_t again_ms = LIMIT_LEASE_RETRY_MS;

	(void)unix_look();
	if (lease.ends_ms > unix_now_ms()) {
		wait(kept);
		return;
	}
	if (is_changed(kept))
		return;
	lease = kept->lease; /* at its end something else may be wanted now */
	if (leases->ended && tenant && name)
		again_ms = leases->ended(leases->context, tenant, name, &lease);
	/* The one who was told may have forgotten it, or set another. */
	kept = tenant && name ? find_kept_lease(leases, tenant, name) : kept;
	if (!kept || kept->lease.ends_ms != lease.ends_ms)
		return;
	if (again_ms > 0)
		timer_set(&kept->timer, again_ms);
	else
		drop_lease(kept);
}

static void on_due(void *context)
{
	struct kept_lease *kept = context;

	loop_share_wait(&kept->slice, &kept->tenant->usage->share);
}

static void set_clock(struct leases *leases)
{
	if (leases->count > 0 && !timer_is_set(&leases->clock))
		timer_set(&leases->clock, leases->retired ? RETIRED_LOOK_MS : LIMIT_LEASE_CLOCK_MS);
}

static void read_again(struct leases *leases, const struct workspace *workspace)
{
	struct properties properties;

	if (workspace->kind != WORKSPACE_MANAGED ||
		properties_load(leases->workspaces->managed_fd, workspace->tenant, workspace->name,
			&properties) < 0)
		return;
	leases_set(leases, workspace->tenant, workspace->name, &properties.lease);
	properties_done(&properties);
}

static void on_clock(void *context)
{
	struct leases *leases = context;
	struct workspace *workspace;
	struct kept_lease *kept;
	const int64_t by = unix_look();

	if (leases->retired)
		LIST_FOREACH (workspace, &leases->workspaces->list, entry)
			read_again(leases, workspace);
	for (size_t i = 0; (by > CLOCK_SET_MS || by < -CLOCK_SET_MS) && i < LISTS; i++)
		LIST_FOREACH (kept, &leases->lists[i], entry)
			wait(kept);
	set_clock(leases);
}

void leases_set(
	struct leases *leases, struct tenant *tenant, const char *name, const struct lease *lease)
{
	struct kept_lease *kept = find_kept_lease(leases, tenant->name, name);
	const size_t size = strlen(name) + 1;

	if (lease->ends_ms == 0) {
		if (kept)
			drop_lease(kept);
		return;
	}
	if (!kept) {
		kept = calloc(1, sizeof(*kept) + size);
		/* It is found again at the next start. */
		if (!kept) {
			log_error(
				"out of memory: the lease of the workspace %s does not end", name);
			return;
		}
		kept->leases = leases;
		kept->tenant = tenant_hold(tenant);
		tenant->usage->leases++;
		memcpy(kept->name, name, size);
		timer_init(&kept->timer, on_due, kept);
		kept->slice = (struct loop_share_task){.act = end_leases, .context = kept};
		LIST_INSERT_HEAD(&leases->lists[list_of(name)], kept, entry);
		leases->count++;
	}
	kept->lease = *lease;
	wait(kept);
	set_clock(leases);
}

void leases_forget(struct leases *leases, const struct tenant *tenant, const char *name)
{
	struct kept_lease *kept = find_kept_lease(leases, tenant->name, name);

	if (kept)
		drop_lease(kept);
}

/* A death may have left the properties of a workspace that is gone, or was never made. */
static bool is_there(const struct leases *leases, const struct tenant *tenant, const char *name)
{
	_cleanup_close_ int directory = managed_directory(leases->workspaces->managed_fd, tenant);
	struct stat stat_buf;

	return (directory >= 0 && fstatat(directory, name, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0) ||
	       (directory >= 0 && errno != ENOENT) || forks_make(leases->workspaces, tenant, name);
}

/* @tidies: also removes records of workspaces that are gone. */
static void look_at_lease(
	void *context, struct tenant *tenant, DIR *directory, const char *name, bool tidies)
{
	struct leases *leases = context;
	struct properties properties;
	int r;

	if (tidies && !is_there(leases, tenant, name)) {
		(void)properties_forget(leases->workspaces->managed_fd, tenant, name);
		return;
	}
	r = properties_load_in(directory, name, &properties);
	if (r < 0) {
		log_error("tenant %s: the record of the labels, lease and environment of the "
			  "workspace %s cannot be read: %s",
			tenant->name, name, strerror(-r));
		return;
	}
	leases_set(leases, tenant, name, &properties.lease);
	properties_done(&properties);
}

static void list_leases(void *context, const struct tenant *tenant, DIR **ret)
{
	const struct leases *leases = context;

	if (properties_list(leases->workspaces->managed_fd, tenant, ret) < 0)
		log_error("tenant %s: the leases of its workspaces cannot be read", tenant->name);
}

static const char *next_lease(DIR *directory, size_t *left)
{
	(void)left;
	return properties_list_next(directory);
}

void leases_look(struct leases *leases, const struct config *config, bool tidies)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->managed)
			tenant_walk_add(&leases->reading, config->tenants[i], tidies);
}

struct leases *leases_new(struct workspaces *workspaces)
{
	static const struct tenant_walk_owner owner = {
		list_leases, next_lease, look_at_lease, NULL};
	struct leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return NULL;
	leases->workspaces = workspaces;
	tenant_walk_init(&leases->reading, &owner, leases);
	timer_init(&leases->clock, on_clock, leases);
	return leases;
}

void leases_free(struct leases *leases)
{
	if (!leases)
		return;
	tenant_walk_done(&leases->reading);
	timer_cancel(&leases->clock);
	for (size_t i = 0; i < LISTS; i++)
		while (!LIST_EMPTY(&leases->lists[i]))
			drop_lease(LIST_FIRST(&leases->lists[i]));
	free(leases);
}

void leases_tell(struct leases *leases, lease_ended ended, void *context)
{
	leases->ended = ended;
	leases->context = context;
}

void leases_retire(struct leases *leases)
{
	leases->retired = true;
	timer_cancel(&leases->clock);
	set_clock(leases);
}
