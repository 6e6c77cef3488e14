// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/daemon/memory_bound.h"

#include "common/limits.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/denials.h"

#define MEMORY_BASE_BYTES       (8 * MIB)
#define MEMORY_CONNECTION_BYTES (8 * KIB) /* beside its requests and answers */
#define MEMORY_COMMAND_BYTES \
	(8 * KIB) /* a running command, with the least that is kept of its output */
#define MEMORY_WORKSPACE_BYTES (4 * KIB)
/* A session that has ended: its end, of which the command is most, and those that search it. */
#define MEMORY_SESSION_KEPT_BYTES \
	(8ULL * LIMIT_SESSION_SHOWN_BYTES + LIMIT_SESSION_WAITERS * 4ULL * KIB)
/* A session that runs: the parts of its input, besides their bytes, which requests count. */
#define MEMORY_SESSION_BYTES (MEMORY_COMMAND_BYTES + LIMIT_SESSION_INPUTS * 128ULL)

/*
 * The number of workspaces in use at once, which may be less than the sum of the tenants' limits.
 */
static uint64_t workspaces(const struct config *config)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		sum += config->tenants[i]->limits.workspaces;
	return sum < LIMIT_WORKSPACES ? sum : LIMIT_WORKSPACES;
}

/* The number of tenants with a network, whose recent refusals are kept. */
static uint64_t networks(const struct config *config)
{
	uint64_t n = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		n += config->tenants[i]->network == TENANT_NETWORK_EGRESS;
	return n;
}

/* The output of sessions that may be kept. */
static uint64_t client_bytes(const struct config *config)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->limits.sessions > 0)
			sum += LIMIT_SESSIONS_TENANT_BYTES;
	return sum < LIMIT_SESSIONS_BYTES ? sum : LIMIT_SESSIONS_BYTES;
}

/* The number of sessions that may run; as many more may be kept, of each tenant. */
static uint64_t sessions(const struct config *config, uint64_t most)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		sum += config->tenants[i]->limits.sessions;
	return sum < most ? sum : most;
}

/* The number of tenants whose commands' output may be read at once. */
static uint64_t readers(const struct config *config)
{
	uint64_t running = config->host.commands + sessions(config, LIMIT_SESSIONS);

	return config->n_tenants < running ? config->n_tenants : running;
}

uint64_t memory_bound(const struct config *config)
{
	const struct config_host *host = &config->host;
	const struct {
		uint64_t count, bytes;
	} parts[] = {
		/* programs, libraries and configuration, and freed memory that malloc(3) keeps */
		{1, MEMORY_BASE_BYTES},
		{1, LIMIT_MEMORY_KEPT_BYTES},
		/* requests, and the parts of them that wait for workspaces' processes */
		{1, service_request_bound(host->connections)},
		/* results that are still incomplete */
		{1, LIMIT_FRAMES_HELD_BYTES},
		/*
		 * answers and partial results; one more tenant for the clients of the control
		 * socket
		 */
		{1, LIMIT_UNREAD_BYTES},
		{config->n_tenants + 1, LIMIT_UNREAD_TENANT_BYTES},
		/* the state of each */
		{host->connections + LIMIT_CONTROL_CONNECTIONS, MEMORY_CONNECTION_BYTES},
		{LIMIT_CONTROL_CONNECTIONS, LIMIT_CONTROL_LINE_BYTES},
		{LIMIT_UNAUTHORIZED_CLIENTS, LIMIT_UNAUTHORIZED_LINE_BYTES},
		{host->commands, MEMORY_COMMAND_BYTES},
		{workspaces(config), MEMORY_WORKSPACE_BYTES},
		{readers(config), 2ULL * SHARED_FD_MOST},
		{LIMIT_SHARED_FD_MORE_THREADS, SHARED_FD_MOST},
		{1, client_bytes(config)},
		{sessions(config, LIMIT_SESSIONS), MEMORY_SESSION_BYTES},
		{2 * sessions(config, UINT64_MAX), MEMORY_SESSION_KEPT_BYTES},
		{networks(config), LIMIT_DENIALS_KEPT * sizeof(struct denial)},
		{1, LIMIT_LOG_QUEUE_BYTES},
		{host->audit != AUDIT_OFF, LIMIT_AUDIT_QUEUE_BYTES},
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		sum += parts[i].count * parts[i].bytes;
	return sum;
}
