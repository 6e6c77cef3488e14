// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Clients are hostile: values computed from what they do are bounded. */
#include "supervisor/schedule/admission.h"

#include "common/budget.h"
#include "common/limits.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"

static const struct {
	const char *name, *message;
} reasons[ADMISSION_REASONS] = {
	[ADMISSION_CONNECTIONS] = {"connections",
		"The service has reached its limit of connections, or the tenant its part of what "
		"is left; close one, or try again later"},
	[ADMISSION_USER_CONNECTIONS] = {"user_connections",
		"This user has reached its limit of connections; close one, or try again later"},
	[ADMISSION_TENANT_CONNECTIONS] = {"tenant_connections",
		"The tenant has reached its limit of connections; close one, or try again later"},
	[ADMISSION_CONNECTION_CALLS] = {"connection_calls",
		"This connection has reached its limit of calls in flight; wait for an answer "
		"first"},
	[ADMISSION_TENANT_CALLS] = {"tenant_calls",
		"The tenant has reached its limit of calls in flight; try again later"},
	[ADMISSION_QUEUE_LENGTH] = {"queue_length",
		"The tenant has reached its limit of waiting calls; try again later"},
	[ADMISSION_QUEUE_TIME] = {"queue_time", "The call waited longer than the tenant's limit "
						"and was not begun; try again later"},
	[ADMISSION_UNREAD_ANSWERS] = {"unread_answers",
		"There is no room for the answer, because too many earlier answers have not been "
		"read; read them, on this connection or on the tenant's others, and try again"},
	[ADMISSION_SESSIONS] = {"sessions",
		"The service has reached its limit of running sessions, or the tenant its part of "
		"what is left; end one with session.end or the tool stop_command, or try again "
		"later"},
	[ADMISSION_TENANT_SESSIONS] = {"tenant_sessions",
		"The tenant has reached its limit of running sessions; end one with session.end or "
		"the tool stop_command"},
	[ADMISSION_WORKSPACE_SESSIONS] = {"workspace_sessions",
		"The workspace has reached its limit of running sessions; end one with session.end "
		"or the tool stop_command"},
	[ADMISSION_SESSION_OUTPUT] = {"session_output",
		"The output of running sessions takes all the memory that the service, or the "
		"tenant, may have for it; end one with session.end, or give a smaller "
		"output_bytes"},
	[ADMISSION_DEAR_USER] = {"dear_user",
		"A connection of this user had so many waiters at the client's end, such as "
		"watches "
		"of epoll(7), that each system call on it took the service too much CPU time; wait "
		"with fewer, and try again later"},
	[ADMISSION_SHORTAGE] = {"shortage", "The service is short of memory or descriptors"},
};

const char *admission_reason_name(enum admission_reason reason)
{
	return reasons[reason].name;
}

static int64_t retry_ms(uint64_t wait_us)
{
	uint64_t wait_ms = wait_us / 1000;

	if (wait_ms < LIMIT_RETRY_MIN_MS)
		return LIMIT_RETRY_MIN_MS;
	return wait_ms < LIMIT_RETRY_MAX_MS ? (int64_t)wait_ms : LIMIT_RETRY_MAX_MS;
}

static enum tool_error refuse_admission(struct admission *admission, enum admission_reason reason,
	uint64_t wait_us, struct refusal *ret_refusal)
{
	admission->refused[reason]++;
	refusal_set(ret_refusal, TOOL_BUSY, reasons[reason].message);
	ret_refusal->retry_after_ms = retry_ms(wait_us);
	return TOOL_BUSY;
}

enum tool_error admission_refuses_connection(struct admission *admission,
	const struct config *config, size_t connections, const struct tenant *tenant,
	size_t of_user, struct refusal *ret_refusal)
{
	static const struct tenant_usage nobodys;
	const struct tenant_usage *usage = tenant ? tenant->usage : &nobodys;
	const struct config_host *host = &config->host;
	bool shared = config->n_tenants > 1;
	enum admission_reason reason = ADMISSION_REASONS;

	if (share_left(shared, host->connections, connections, usage->connections) == 0)
		reason = ADMISSION_CONNECTIONS;
	else if (tenant && usage->connections >= tenant->limits.connections)
		reason = ADMISSION_TENANT_CONNECTIONS;
	else if (of_user >= host->connections_per_user)
		reason = ADMISSION_USER_CONNECTIONS;
	if (reason == ADMISSION_REASONS)
		return TOOL_OK;
	/* The expected time until one of them ends. */
	return refuse_admission(
		admission, reason, usage->connection_us / (usage->connections + 1), ret_refusal);
}

enum tool_error admission_refuses_call(struct admission *admission, const struct tenant *tenant,
	size_t of_connection, bool is_scheduled, struct refusal *ret_refusal)
{
	const struct tenant_usage *usage = tenant->usage;

	if (of_connection >= tenant->limits.calls_per_connection)
		return refuse_admission(
			admission, ADMISSION_CONNECTION_CALLS, usage->call_us, ret_refusal);
	if (usage->calls >= tenant->limits.calls)
		return refuse_admission(
			admission, ADMISSION_TENANT_CALLS, usage->call_us, ret_refusal);
	/* Calls that came in the same turn of the loop have had no chance to begin yet. */
	if (is_scheduled && usage_waiting(tenant) >= tenant->limits.queue_length)
		scheduler_run(admission->scheduler);
	if (!is_scheduled || usage_waiting(tenant) < tenant->limits.queue_length)
		return TOOL_OK;
	/*
	 * The time until half of the queue has begun. A later retry would be too late, because all
	 * refused clients wait for this moment.
	 */
	return refuse_admission(admission, ADMISSION_QUEUE_LENGTH,
		scheduler_wait_us(admission->scheduler, tenant) / 2, ret_refusal);
}

enum tool_error admission_refuse_session(
	struct admission *admission, enum admission_reason reason, struct refusal *ret_refusal)
{
	return refuse_admission(
		admission, reason, (uint64_t)LIMIT_RETRY_MAX_MS * 1000, ret_refusal);
}

void admission_refuse_dear_user(
	struct admission *admission, int64_t left_ms, struct refusal *ret_refusal)
{
	(void)refuse_admission(
		admission, ADMISSION_DEAR_USER, (uint64_t)left_ms * 1000, ret_refusal);
}

void admission_waited_too_long(
	struct admission *admission, const struct tenant *tenant, struct refusal *ret_refusal)
{
	(void)refuse_admission(admission, ADMISSION_QUEUE_TIME,
		scheduler_wait_us(admission->scheduler, tenant) / 2, ret_refusal);
}

void admission_answers_unread(
	struct admission *admission, const struct tenant *tenant, struct refusal *ret_refusal)
{
	(void)refuse_admission(
		admission, ADMISSION_UNREAD_ANSWERS, tenant->usage->call_us, ret_refusal);
}

int64_t admission_shortage(struct admission *admission, const struct tenant *tenant)
{
	admission->refused[ADMISSION_SHORTAGE]++;
	return retry_ms(tenant ? tenant->usage->call_us : 0);
}

void admission_call_ended(const struct tenant *tenant, uint64_t took_us)
{
	queue_mean_add(&tenant->usage->call_us, took_us);
}

void admission_connection_ended(const struct tenant *tenant, uint64_t took_us)
{
	queue_mean_add(&tenant->usage->connection_us, took_us);
}
