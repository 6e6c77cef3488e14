/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* What one tenant may hold of what tenants share: the rule, and the memory of requests. */

#include "common/budget.h"
#include "supervisor/call/service.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"

TEST(test_the_rule)
{
	static const struct {
		bool shared;
		uint64_t limit, all, own, left;
	} rows[] = {
		{false, 512, 0, 0, 512},
		{false, 512, 500, 500, 12},
		{false, 512, 512, 512, 0},
		{false, 512, 600, 0, 0}, /* the limit was lowered */
		{true, 512, 0, 0, 256},
		{true, 512, 256, 256, 0},
		{true, 512, 257, 257, 0},
		{true, 512, 384, 128, 0},
		{true, 512, 384, 0, 64},
		{true, 512, 448, 64, 0},
		{true, 512, 510, 0, 1},
		{true, 512, 511, 0, 0},
		{true, 1, 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(
			share_left(rows[i].shared, rows[i].limit, rows[i].all, rows[i].own),
			rows[i].left);
}

TEST(test_a_budget)
{
	uint64_t own[100] = {0}, last;
	struct budget budget = {0};

	/* One tenant has all of it. */
	budget_set(&budget, 1000, 1, 10);
	assert_int_equal(budget_left(&budget, 0), 1000);
	budget_take(&budget, &own[0], 1000);
	assert_int_equal(budget_left(&budget, own[0]), 0);
	budget_take(&budget, &own[0], -1000);
	assert_true(budget.held == 0 && own[0] == 0);
	/* Each of many takes what it can, and the last ones have their floor. */
	budget_set(&budget, 1000, 10, 20);
	assert_int_equal(budget_left(&budget, 0), 400);
	for (size_t i = 0; i < 10; i++) {
		last = budget_left(&budget, 0);
		assert_true(last >= 20);
		budget_take(&budget, &own[i], (int64_t)last);
		assert_int_equal(budget_left(&budget, own[i]), 0);
		assert_true(budget.held <= 1000);
	}
	assert_int_equal(last, 20);
	/* What was held before a reload stays, and the floors are a quarter at most. */
	budget_set(&budget, 1000, 100, 20);
	assert_int_equal(budget.floor, 2);
	assert_int_equal(budget_left(&budget, own[0]), 0);
	assert_int_equal(budget_left(&budget, 0), 2);
	assert_int_equal(budget_left(&budget, 1), 1);
}

/* The longest line, and the content that it brings: a file of the largest size, in base64. */
#define LINE    (LIMIT_CONTENT_BYTES / 3 * 4 + 4 * KIB)
#define CONTENT LIMIT_CONTENT_BYTES

/* Holds as much as the tenant may. */
static void fill(struct service *service, struct tenant_usage *usage)
{
	service_account(service, usage, (int64_t)service_memory_left(service, usage, 0));
	assert_int_equal(service_memory_left(service, usage, 0), 0);
}

TEST(test_a_tenant_leaves_others_memory_for_requests)
{
	static struct tenant_usage usages[6];
	static struct service service;
	uint64_t before = UINT64_MAX;

	fill(&service, &usages[0]);
	assert_int_equal(usages[0].pending_bytes, LIMIT_PENDING_TENANT_BYTES);
	/* Another does not notice: its largest request finds room. */
	assert_true(service_memory_left(&service, &usages[1], 0) >= LINE);
	service_account(&service, &usages[1], LINE);
	assert_true(service_memory_left(&service, NULL, 0) >= CONTENT);
	assert_true(service_memory_left(&service, &usages[1], LINE) >= CONTENT);
	service_account(&service, &usages[1], -(int64_t)LINE);
	/* Of many, each later one finds something. */
	for (size_t i = 1; i < ARRAY_SIZE(usages); i++) {
		uint64_t left = service_memory_left(&service, &usages[i], 0);

		assert_true(left > 0 && left < before);
		before = left;
		fill(&service, &usages[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(usages); i++)
		service_account(&service, &usages[i], -(int64_t)usages[i].pending_bytes);
	assert_int_equal(service.pending_bytes, 0);
}

/* A process that was taken over answers what it never reads. What waits for it is its tenant's. */
TEST(test_what_processes_do_not_read_is_their_tenants)
{
	static struct tenant_usage usage, other;
	static struct service service;
	const uint64_t alone = service_memory_left(&service, &usage, 0);

	service_account(&service, &usage, MIB);
	service_account_sent(&service, &usage, MIB);
	usage.waiting_bytes = MIB;
	assert_int_equal(service_memory_left(&service, &usage, 0), alone - MIB);
	/* It is answered. */
	service_account_sent(&service, &usage, -(int64_t)MIB);
	service_account(&service, &usage, -(int64_t)MIB);
	assert_int_equal(service_memory_left(&service, &usage, 0), alone - MIB);
	usage.waiting_bytes = LIMIT_PENDING_TENANT_BYTES;
	assert_int_equal(service_memory_left(&service, &usage, 0), 0);
	assert_int_equal(service_memory_left(&service, &other, 0), alone);
	usage.waiting_bytes = 0;
	assert_int_equal(service_memory_left(&service, &usage, 0), alone);
	assert_int_equal(service.pending_bytes, 0);
}
