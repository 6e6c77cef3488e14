// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/schedule/usage.h"

#include "supervisor/base/shared_fd.h"
#include "supervisor/config/config.h"

#include <errno.h>
#include <stdlib.h>

const struct usage_now usage_unknown = {-1, -1, -1};

static void add_to_usage(int64_t *sum, int64_t value)
{
	if (value >= 0)
		*sum = *sum < 0 ? value : *sum + value;
}

void usage_now_add(struct usage_now *sum, const struct usage_now *more)
{
	add_to_usage(&sum->cpu_milli, more->cpu_milli);
	add_to_usage(&sum->memory_bytes, more->memory_bytes);
	add_to_usage(&sum->io_per_s, more->io_per_s);
}

static void release_tenant_usage(struct tenant_usage *usage)
{
	if (--usage->references > 0)
		return;
	denials_done(&usage->denials);
	loop_share_leave(&usage->share, loop_share_of_nobody());
	shared_fd_threads_free(usage->share.threads);
	free(usage);
}

static void attach_usage(struct tenant *tenant, struct tenant_usage *usage)
{
	usage->references++;
	tenant->usage = usage;
	tenant->usage_release = release_tenant_usage;
}

int usage_begin(struct tenant *tenant)
{
	struct tenant_usage *usage = calloc(1, sizeof(*usage));

	if (!usage)
		return -ENOMEM;
	usage->share.threads = shared_fd_threads_new();
	if (!usage->share.threads) {
		free(usage);
		return -ENOMEM;
	}
	denials_init(&usage->denials);
	attach_usage(tenant, usage);
	return 0;
}

int usage_begin_all(struct config *config, const struct config *former)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->n_tenants; i++) {
		struct tenant *tenant = config->tenants[i];
		const struct tenant *of_its_name =
			former ? config_find_tenant(former, tenant->name) : NULL;

		if (of_its_name)
			attach_usage(tenant, of_its_name->usage);
		else
			r = usage_begin(tenant);
	}
	return r;
}

size_t usage_waiting(const struct tenant *tenant)
{
	size_t n = 0;

	for (size_t i = 0; i < SCHED_CLASSES; i++)
		n += tenant->usage->flows[i].n_waiting;
	return n;
}
