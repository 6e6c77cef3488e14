/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A tenant's present use, as opposed to its limits (config/tenant.h). */

#include "common/wire/wire_egress.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/call_queue.h"
#include "supervisor/schedule/denials.h"
#include "supervisor/schedule/loop_share.h"

struct config;

/* The present use of resources by processes; -1: unknown. */
struct usage_now {
	int64_t cpu_milli;    /* thousandths of a CPU, between the last two looks */
	int64_t memory_bytes; /* page cache included */
	int64_t io_per_s; /* bytes read from and written to devices, between the last two looks */
};

extern const struct usage_now usage_unknown;

/** Adds @more to @sum. Unknown values add nothing. */
void usage_now_add(struct usage_now *sum, const struct usage_now *more);

/* Counts the events about the tenant's refusals, for LIMIT_REFUSALS_TOLD. */
struct refusals_told {
	int64_t second; /* of clock_now() */
	unsigned told;  /* in this second */
	uint64_t untold;
};

/* Lines about a tenant's lost cells in the log: LIMIT_TROUBLE_LINES in LIMIT_TROUBLE_LINES_MS. */
struct trouble_lines {
	int64_t since; /* clock_now() of the first of this time; 0: none yet */
	unsigned logged;
	uint64_t left_out;
};

/* Present use. Successive tenants of one name share it through reloads. */
struct tenant_usage {
	unsigned references;
	size_t connections, calls, workspaces;
	size_t descriptors;     /* that its workspaces hold in cloisterd */
	size_t sessions;        /* running ones */
	size_t watches;         /* of directories */
	size_t forwards;        /* connections to ports of its workspaces */
	uint64_t client_bytes;  /* output that running and ended sessions may keep */
	uint64_t pending_bytes; /* of its requests */
	uint64_t sent_bytes;    /* the part of them that was sent to its processes, */
	uint64_t waiting_bytes; /* and what its processes have not read, also of ended calls */
	uint64_t tasks_held;    /* by its workspaces in which commands run */
	uint64_t audit_bytes;   /* of the audit log's queue, for the ends of its calls */
	size_t disk_bytes;      /* of its workspaces in use, as counted or measured last */
	size_t existing;        /* number of managed workspaces: managed_quota.h */
	size_t removed;         /* the same, removed and not cleared yet */
	size_t forks_awaited;   /* to be made by requests under way, and become existing ones */
	uint64_t existing_ms;   /* when they were counted; 0: never */
	/* for how long they are not counted again */
	uint64_t existing_rest_ms;
	size_t leases;          /* of its managed workspaces */
	size_t templates;       /* that were there when they were counted */
	size_t template_bytes;  /* on disk, of those that have been measured */
	size_t template_memory; /* bytes of those that are in memory */
	size_t copies;          /* requests that have trees copied */
	uint64_t unread_bytes;  /* see unread.h */
	size_t tasks;           /* of MCP, running and kept */
	size_t task_bytes;      /* of their results, or reserved for them */
	bool lists;             /* a workspace.list is made: one at a time */
	struct queue_flow flows[SCHED_CLASSES];
	struct loop_share_flow share;
	/* Mean duration of recent calls and connections; 0: none yet. */
	uint64_t call_us, connection_us;
	struct refusals_told refusals, network_refusals;
	struct trouble_lines troubles;
	struct usage_now now; /* of its workspaces, when they were added up last */
	/* Totals since cloisterd started. */
	uint64_t calls_ended, calls_us, command_cpu_us, io_read_bytes, io_write_bytes;
	uint64_t forwards_begun;
	uint64_t checkpoints, rollbacks; /* of managed workspaces, that were made */
	uint64_t previews, commits, discards;
	uint64_t folds, folds_failed, folds_us; /* two layers that were made one, or could not be */
	uint64_t loads, loads_failed, loads_us; /* of templates into memory */
	/* templates that were made of workspaces or directories, and workspaces of them */
	uint64_t freezes, imports, forks;
	uint64_t leases_ended;      /* by which workspaces were closed or removed */
	uint64_t pipes_held;        /* by commands, for too long: command_io.h */
	uint64_t dear_peers;        /* that were ended for what waking them cost: wake_cost.h */
	uint64_t pauses, paused_us; /* measurements for which commands were stopped */
	uint64_t network_connections, network_bytes_in, network_bytes_out;
	uint64_t network_denied[EGRESS_REASON_END];
	struct denials denials; /* the recent ones of these */
};

/** Begins to serve @tenant, which uses nothing yet. Returns 0 or -ENOMEM. */
int usage_begin(struct tenant *tenant);

/**
 * Begins to serve all tenants of @config. Each continues the counts of the tenant with its name in
 * @former (NULL: there was no configuration before). Returns 0, or -ENOMEM: the caller releases
 * @config.
 */
int usage_begin_all(struct config *config, const struct config *former);

/** Returns how many of the tenant's calls wait in queues, of all classes. */
size_t usage_waiting(const struct tenant *tenant);
