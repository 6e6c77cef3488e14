/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* State shared by all connections. main owns it; all others borrow it. */

#include "common/errors.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/call_stats.h"
#include "supervisor/schedule/admission.h"
#include "supervisor/schedule/unread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct audit;
struct call_observer;
struct cgroup;
struct config;
struct config_reload;
struct egress_link;
struct elsewhere;
struct event_base;
struct headroom;
struct pipe_stock;
struct keys;
struct selftest;
struct tenant_usage;
struct workspaces;

struct service {
	struct event_base *base;
	struct workspaces *workspaces;
	struct config *config; /* held; a reload replaces it (config_reload.h) */
	struct pipe_stock *pipes;
	struct egress_link *egress; /* NULL: there is none, and no workspace has a network */
	struct admission admission;
	const struct cgroup *cgroup;
	struct selftest *selftest;             /* NULL: a private instance has none */
	struct config_reload *config_reload;   /* NULL: there is no file to read again */
	struct audit *audit;                   /* NULL: it is off */
	struct keys *keys;                     /* NULL: there is no journal */
	struct headroom *headroom;             /* NULL: a private instance has none */
	const struct call_observer *observers; /* of every call, in this order */
	size_t n_observers;
	struct call_stats stats;
	int64_t started;             /* as clock_now() */
	int64_t started_unix_ms;     /* the same, in milliseconds since the epoch */
	size_t connections;          /* of agents */
	size_t control_connections;  /* of administrators and observers */
	size_t unauthorized_clients; /* see unauthorized_client.h */
	/*
	 * Memory of all requests: incomplete lines, calls in flight and their input, without the
	 * data that waits for processes (process_links_waiting()).
	 */
	uint64_t pending_bytes;
	uint64_t pending_peak;
	struct unread unread; /* of answers */
	bool shutting_down;   /* no new calls begin */
	bool gives_way;       /* another generation has asked for its place: no self-test begins */
	bool draining;        /* no new calls begin until an administrator resumes */
	/*
	 * Another generation of cloisterd takes over (daemon/old_daemon.h): begun work goes on, and
	 * calls begin only in workspaces with running calls.
	 */
	bool retiring;
	uint64_t retirings; /* how often one has asked */
	bool retired;       /* it has taken over: only workspaces that linger (workspace.h) go on */
	/* the generation before this one, while it lasts */
	struct {
		pid_t pid; /* 0: there is none */
		size_t commands, copies;
		const struct elsewhere *workspaces;
	} old_daemon;
	/*
	 * While it drains: the name of the host where the work goes on, from an administrator. Then
	 * a workspace that has a call goes on here until it has none. NULL: no work begins.
	 */
	char *moved_to;
	uint64_t moves; /* how often an administrator has given one */
	/*
	 * Whether a required self-test refuses all calls. Returns like service_refusal(). NULL:
	 * there is no self-test.
	 */
	enum tool_error (*selftest_refuses)(
		const struct selftest *selftest, struct refusal *ret_refusal);
	/*
	 * The last connection or the last workspace has gone: main decides whether the process
	 * ends.
	 */
	void (*idle)(struct service *service);
};

/**
 * Whether nothing new is begun: TOOL_OK, or the code of @ret_refusal. Where work moves to another
 * host, that depends on the workspace: agent/agent_moved.h.
 */
enum tool_error service_refusal(const struct service *service, struct refusal *ret_refusal);

/**
 * Returns the most memory that requests can take together with @connections open connections,
 * whatever clients send: json/json_read.h and common/limits.h explain it.
 */
uint64_t service_request_bound(size_t connections);

/**
 * Adds @bytes, which may be negative, to the memory of requests of the service and of the tenant of
 * @usage, which may be NULL.
 */
void service_account(struct service *service, struct tenant_usage *usage, int64_t bytes);

/**
 * The tenant's requests have sent @bytes more of their memory, which may be negative, to its
 * processes. The service counts them while these have not read them (process_links_waiting()), and
 * the tenant until the requests are answered.
 */
void service_account_sent(struct service *service, struct tenant_usage *usage, int64_t bytes);

/**
 * Returns how much more memory requests that count for @usage (may be NULL) may take, if @without
 * bytes were not counted.
 */
uint64_t service_memory_left(
	const struct service *service, const struct tenant_usage *usage, uint64_t without);
