// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/service.h"

#include "common/budget.h"
#include "common/limits.h"
#include "supervisor/cell/process_link.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"

#include <malloc.h>

#define WORTH_RETURNING (16 * MIB)

void service_account(struct service *service, struct tenant_usage *usage, int64_t bytes)
{
	if (usage)
		usage->pending_bytes += (uint64_t)bytes;
	service->pending_bytes += (uint64_t)bytes;
	if (service->pending_bytes > service->pending_peak)
		service->pending_peak = service->pending_bytes;
	/* After a wave of large requests, return their memory to the kernel. */
	if (service->pending_bytes == 0 && service->pending_peak > WORTH_RETURNING) {
		service->pending_peak = 0;
		malloc_trim(0);
	}
}

void service_account_sent(struct service *service, struct tenant_usage *usage, int64_t bytes)
{
	usage->sent_bytes += (uint64_t)bytes;
	service->pending_bytes -= (uint64_t)bytes;
}

uint64_t service_memory_left(
	const struct service *service, const struct tenant_usage *usage, uint64_t without)
{
	uint64_t all = service->pending_bytes + process_links_waiting() - without;
	uint64_t own, of_all, of_tenant;

	if (!usage)
		return share_left(false, LIMIT_PENDING_TOTAL_BYTES, all, 0);
	/* What the tenant's processes have not read of calls that are over counts, too. */
	own = usage->pending_bytes - without;
	if (usage->waiting_bytes > usage->sent_bytes)
		own += usage->waiting_bytes - usage->sent_bytes;
	of_all = share_left(true, LIMIT_PENDING_TOTAL_BYTES, all, own);
	of_tenant = share_left(false, LIMIT_PENDING_TENANT_BYTES, own, 0);
	return of_all < of_tenant ? of_all : of_tenant;
}

uint64_t service_request_bound(size_t connections)
{
	/*
	 * The input buffer may be twice as large as its content, and input is read before it is
	 * checked.
	 */
	const uint64_t own = 2 * (LIMIT_PENDING_OWN_BYTES + LIMIT_READ_LEAST_BYTES);

	/*
	 * The line of the current request and its values are counted already. Its decoded content,
	 * or the copy on its way to a process, is not.
	 */
	return LIMIT_PENDING_TOTAL_BYTES + LIMIT_CONTENT_BYTES + connections * own;
}

/* @ret_error is set if the result is not NULL. */
enum tool_error service_refusal(const struct service *service, struct refusal *ret_refusal)
{
	if (service->shutting_down)
		return refusal_set(ret_refusal, TOOL_SHUTTING_DOWN, "The service is shutting down");
	if (service->draining && !service->moved_to)
		return refusal_set(ret_refusal, TOOL_SHUTTING_DOWN,
			"An administrator has stopped the service from taking new calls; try again "
			"later");
	return service->selftest_refuses ? service->selftest_refuses(service->selftest, ret_refusal)
					 : TOOL_OK;
}
