// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/selftest/canaries.h"

#include "common/cleanup.h"
#include "common/selftest_tenants.h"
#include "supervisor/base/refusal.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/selftest/selftest_forks.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>

static const struct {
	const char *tenant, *workspace;
	const char *allow; /* what its network is narrowed to; NULL: it is not */
} places[CANARY_PLACES] = {
	[CANARY_PLAIN] = {SELFTEST_TENANT, "canary", NULL},
	[CANARY_NETWORK] = {SELFTEST_EGRESS_TENANT, "canary", NULL},
	[CANARY_EMPTY] = {SELFTEST_EGRESS_TENANT, "empty", ""},
	[CANARY_FORK] = {SELFTEST_TENANT, SELFTEST_FORK, NULL},
	[CANARY_SIBLING] = {SELFTEST_TENANT, SELFTEST_SIBLING, NULL},
	[CANARY_ROOT] = {SELFTEST_TENANT, SELFTEST_ROOT, NULL},
};

enum canary_place canary_place(enum probe_kind kind)
{
	switch (kind) {
	case PROBE_EGRESS:
		return CANARY_NETWORK;
	case PROBE_EMPTY:
		return CANARY_EMPTY;
	case PROBE_FORKED:
		return CANARY_FORK;
	case PROBE_SIBLING:
		return CANARY_SIBLING;
	case PROBE_ROOT:
		return CANARY_ROOT;
	default:
		return CANARY_PLAIN;
	}
}

bool canary_has_network(enum canary_place place)
{
	return place == CANARY_NETWORK || place == CANARY_EMPTY;
}

bool canary_is_fork(enum canary_place place)
{
	return place >= CANARY_FORK;
}

const char *canary_name(enum canary_place place)
{
	return places[place].workspace;
}

static struct tenant *make_tenant(enum canary_place place)
{
	struct tenant *tenant = tenant_new(places[place].tenant);
	_cleanup_free_ char *message = NULL;

	if (!tenant || usage_begin(tenant) < 0 ||
		command_policy_new(NULL, 0, &tenant->policy, &message) < 0) {
		tenant_release(tenant);
		return NULL;
	}
	tenant->managed = true;
	if (place == CANARY_PLAIN)
		tenant->limits.workspaces_existing = 1; /* see PROBE_MAKE */
	else
		tenant->network = TENANT_NETWORK_EGRESS;
	return tenant;
}

int canaries_make(struct canary canaries[CANARY_PLACES])
{
	canaries[CANARY_PLAIN].tenant = make_tenant(CANARY_PLAIN);
	canaries[CANARY_NETWORK].tenant = make_tenant(CANARY_NETWORK);
	if (!canaries[CANARY_PLAIN].tenant || !canaries[CANARY_NETWORK].tenant)
		return -ENOMEM;
	canaries[CANARY_EMPTY].tenant = tenant_hold(canaries[CANARY_NETWORK].tenant);
	for (enum canary_place place = CANARY_FORK; place < CANARY_PLACES; place++)
		canaries[place].tenant = tenant_hold(canaries[CANARY_PLAIN].tenant);
	return 0;
}

void canaries_free(struct canary canaries[CANARY_PLACES])
{
	for (size_t i = 0; i < CANARY_PLACES; i++)
		tenant_release(TAKE_PTR(canaries[i].tenant));
}

enum tool_error canary_open(struct canary canaries[CANARY_PLACES], enum canary_place place,
	struct workspaces *workspaces, struct refusal *ret_refusal)
{
	struct canary *canary = &canaries[place];
	enum tool_error error;

	if (canary->workspace)
		return TOOL_OK;
	error = workspaces_get_managed(workspaces, canary->tenant,
		text_from(places[place].workspace), !canary_is_fork(place), &canary->workspace,
		ret_refusal);
	if (error != TOOL_OK || !places[place].allow ||
		workspace_narrow(canary->workspace, places[place].allow))
		return error;
	workspace_release(TAKE_PTR(canary->workspace));
	return refusal_set(ret_refusal, TOOL_BUSY, NULL);
}

static void close_one(struct canary *canary)
{
	workspace_release(canary->workspace);
	*canary = (struct canary){.tenant = canary->tenant};
}

void canaries_leave_forks(struct canary canaries[CANARY_PLACES])
{
	for (size_t i = CANARY_FORK; i < CANARY_PLACES; i++)
		close_one(&canaries[i]);
}

void canaries_close(struct canary canaries[CANARY_PLACES])
{
	for (size_t i = 0; i < CANARY_PLACES; i++)
		close_one(&canaries[i]);
}
