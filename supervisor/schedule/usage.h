/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a tenant uses, beside what it may have (config/tenant.h). */

#include "supervisor/config/tenant.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/scheduler.h"

struct config;

/* What is in use now. Shared by the tenants of one name that follow each other through reloads. */
struct tenant_usage {
	unsigned references;
	size_t connections, calls, workspaces;
	uint64_t pending_bytes; /* its part of the service's */
	size_t existing;        /* managed workspaces: managed_quota.h */
	uint64_t existing_ms;   /* when they were counted; 0: never */
	uint64_t unread_bytes;  /* see unread.h */
	struct queue_flow flows[SCHED_CLASSES];
	struct loop_share_flow share;
	/* What the last ones took, about; 0: there were none. */
	uint64_t call_us, connection_us;
	/* And what has been, since cloisterd started. */
	uint64_t calls_ended, calls_us, command_cpu_us, io_read_bytes, io_write_bytes;
};

/** @tenant is served from now on and uses nothing yet. 0 or -ENOMEM. */
int usage_begin(struct tenant *tenant);

/** All tenants of @config are served: each goes on counting where the one of its name in @former
 * (NULL: there was no configuration before) stands. 0, or -ENOMEM: @config is to be released. */
int usage_begin_all(struct config *config, const struct config *former);

/** Calls of the tenant that wait for their turn, of all kinds. */
size_t usage_waiting(const struct tenant *tenant);
