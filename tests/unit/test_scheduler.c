/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Calls that wait for their turn: each state of an entry and what happens in it, the scheduler in
 * its loop, and what admission refuses. */
#include "supervisor/schedule/scheduler.h"

#include "supervisor/config/config.h"
#include "supervisor/schedule/admission.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/service.h"

/* An entry of a queue: call_queue.c has the table. */

enum entry_state { NOWHERE, WAITING, RUNNING, ENTRY_STATES };

static enum entry_state state_of(const struct queue_entry *entry)
{
	return !entry->workspace ? NOWHERE : entry->running ? RUNNING : WAITING;
}

enum entry_event {
	ADDED,
	ITS_TURN, /* the queue is asked for the next entry, and has room */
	NO_ROOM,  /* the same, without room */
	RETURNED,
	REMOVED,
	WORKSPACE_CLOSED,
	WORKSPACE_MOVED,
};

TEST(test_each_state_of_an_entry)
{
	static const struct {
		enum entry_state from;
		enum entry_event event;
		enum entry_state to;
	} rows[] = {
		{NOWHERE, ADDED, WAITING},
		{NOWHERE, ITS_TURN, NOWHERE},
		{NOWHERE, REMOVED, NOWHERE},
		{NOWHERE, WORKSPACE_CLOSED, NOWHERE},
		{NOWHERE, WORKSPACE_MOVED, NOWHERE},
		{WAITING, ITS_TURN, RUNNING},
		{WAITING, NO_ROOM, WAITING},
		{WAITING, REMOVED, NOWHERE},
		{WAITING, WORKSPACE_CLOSED, WAITING},
		{WAITING, WORKSPACE_MOVED, WAITING},
		{RUNNING, ITS_TURN, RUNNING},
		{RUNNING, NO_ROOM, RUNNING},
		{RUNNING, RETURNED, WAITING},
		{RUNNING, REMOVED, NOWHERE},
		{RUNNING, WORKSPACE_CLOSED, RUNNING},
		{RUNNING, WORKSPACE_MOVED, RUNNING},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct queue_flow flow = {0}, other = {0};
		struct workspace_queue workspace;
		struct queue_entry entry = {0};
		struct call_queue queue;
		bool begins = rows[i].event == ITS_TURN && rows[i].from == WAITING;

		call_queue_init(&queue, 2);
		queue_flow_set(&queue, &flow, 100, SIZE_MAX, 0);
		queue_flow_set(&queue, &other, 100, SIZE_MAX, 0);
		workspace_queue_init(&workspace, &flow);
		workspace_queue_set(&queue, &workspace, true, 1, 0);
		if (rows[i].from != NOWHERE)
			call_queue_add(&queue, &entry, &workspace, 0);
		if (rows[i].from == RUNNING)
			assert_ptr_equal(call_queue_next(&queue, 0), &entry);
		if (rows[i].event == ADDED)
			call_queue_add(&queue, &entry, &workspace, 1);
		if (rows[i].event == ITS_TURN)
			assert_ptr_equal(call_queue_next(&queue, 1), begins ? &entry : NULL);
		if (rows[i].event == NO_ROOM) {
			queue.limit = 0;
			assert_null(call_queue_next(&queue, 1));
		}
		if (rows[i].event == RETURNED) {
			workspace_queue_set(&queue, &workspace, false, 1, 1);
			call_queue_return(&queue, &entry, 1);
		}
		if (rows[i].event == REMOVED)
			call_queue_remove(&queue, &entry, 1);
		if (rows[i].event == WORKSPACE_CLOSED) {
			workspace_queue_set(&queue, &workspace, false, 1, 1);
			assert_null(call_queue_next(&queue, 1));
		}
		if (rows[i].event == WORKSPACE_MOVED)
			workspace_queue_move(&queue, &workspace, &other, 1);
		if (state_of(&entry) != rows[i].to)
			fail_msg("row %zu: %d", i, state_of(&entry));
		/* Each counter matches the entry's state after the event. */
		assert_int_equal(queue.n_running, rows[i].to == RUNNING);
		assert_int_equal(workspace.n_running, rows[i].to == RUNNING);
		assert_int_equal(workspace.n_waiting, rows[i].to == WAITING);
		assert_int_equal(flow.n_running + other.n_running, rows[i].to == RUNNING);
		assert_int_equal(flow.n_waiting + other.n_waiting, rows[i].to == WAITING);
		if (rows[i].event == WORKSPACE_MOVED)
			assert_int_equal(flow.n_running + flow.n_waiting, 0);
		call_queue_remove(&queue, &entry, 2);
		assert_int_equal(queue.n_running, 0);
	}
}

/* The scheduler. */

#define CALLS 8

static const char config[] = "[cloister]\n"
			     "commands = 6\n"
			     "file_jobs = 1\n"
			     "connections = 4\n"
			     "connections_per_user = 2\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "commands = 5\n"
			     "connections = 3\n"
			     "calls = 5\n"
			     "calls_per_connection = 3\n"
			     "queue_length = 2\n";

static struct fake_service *fake;
static struct scheduler *scheduler;
static struct tenant *tenant;
static struct sched_queues queues;
static struct sched_entry entries[CALLS];
static size_t begun[2 * CALLS], n_begun; /* indices of entries, in the order in which they began */
static bool returns;                     /* on_begin() returns the entry */

static void on_begin(struct sched_entry *entry)
{
	static const size_t closed[SCHED_CLASSES] = {0};

	assert_ptr_equal(entry->context, &entries);
	begun[n_begun++] = (size_t)(entry - entries);
	if (!returns)
		return;
	scheduler_queues_set(scheduler, &queues, closed);
	scheduler_return(scheduler, entry);
}

static void open_queues(void)
{
	static const size_t limits[SCHED_CLASSES] = {[SCHED_JOB] = 2, [SCHED_COMMAND] = 64};

	scheduler_queues_set(scheduler, &queues, limits);
}

static void add(size_t i, enum sched_class class)
{
	entries[i] = (struct sched_entry){
		.class = (uint8_t) class, .begin = on_begin, .context = &entries};
	scheduler_add(scheduler, &entries[i], &queues);
}

static int set_up(void **state)
{
	(void)state;
	fake = fake_service_new(config);
	scheduler = fake->service.admission.scheduler;
	tenant = fake->service.config->tenants[0];
	scheduler_queues_init(scheduler, &queues, tenant);
	open_queues();
	n_begun = 0;
	returns = false;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		if (entries[i].queued.workspace)
			scheduler_remove(scheduler, &entries[i]);
	memset(entries, 0, sizeof(entries));
	fake_service_free(fake);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Entries begin from the loop, in order, up to the limits of tenant and class. */
TEST(test_calls_begin_from_the_loop)
{
	for (size_t i = 0; i < 6; i++)
		add(i, SCHED_COMMAND);
	add(6, SCHED_JOB);
	add(7, SCHED_JOB);
	assert_int_equal(n_begun, 0);
	assert_int_equal(usage_waiting(tenant), 8);
	fake_service_run(fake);
	assert_int_equal(n_begun, 6);
	assert_int_equal(begun[0], 6); /* jobs first */
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(begun[i + 1], i);
	assert_int_equal(usage_waiting(tenant), 2);
	scheduler_remove(scheduler, &entries[6]);
	scheduler_remove(scheduler, &entries[0]);
	fake_service_run(fake);
	assert_int_equal(n_begun, 8);
	assert_int_equal(usage_waiting(tenant), 0);
}

TEST(test_what_is_in_no_class)
{
	add(0, SCHED_NONE);
	fake_service_run(fake);
	scheduler_remove(scheduler, &entries[0]);
	assert_int_equal(n_begun, 0);
	assert_int_equal(usage_waiting(tenant), 0);
}

TEST(test_one_that_leaves_before_its_turn)
{
	add(0, SCHED_COMMAND);
	add(1, SCHED_COMMAND);
	scheduler_remove(scheduler, &entries[0]);
	fake_service_run(fake);
	assert_int_equal(n_begun, 1);
	assert_int_equal(begun[0], 1);
}

/* An entry that could not begin is the first one to begin when its workspace is open again. */
TEST(test_one_that_cannot_begin)
{
	add(0, SCHED_COMMAND);
	add(1, SCHED_COMMAND);
	returns = true;
	fake_service_run(fake);
	assert_int_equal(n_begun, 1);
	assert_int_equal(usage_waiting(tenant), 2);
	returns = false;
	fake_service_run(fake);
	assert_int_equal(n_begun, 1);
	open_queues();
	fake_service_run(fake);
	assert_int_equal(n_begun, 3);
	assert_int_equal(begun[1], 0);
	assert_int_equal(begun[2], 1);
}

/* After a reload, raised limits let more entries begin at once; lowered ones end none. */
TEST(test_limits_that_change)
{
	struct config changed = *fake->service.config;

	add(0, SCHED_JOB);
	add(1, SCHED_JOB);
	fake_service_run(fake);
	assert_int_equal(n_begun, 1);
	changed.host.file_jobs = 2;
	scheduler_set_config(scheduler, &changed);
	fake_service_run(fake);
	assert_int_equal(n_begun, 2);
	changed.host.file_jobs = 1;
	scheduler_set_config(scheduler, &changed);
	assert_int_equal(tenant->usage->flows[SCHED_JOB].n_running, 2);
	scheduler_remove(scheduler, &entries[0]);
	add(2, SCHED_JOB);
	fake_service_run(fake);
	assert_int_equal(n_begun, 2);
}

/* Returns how far the scheduler has read into /proc/loadavg, which it keeps open. */
static off_t load_position(void)
{
	char link[32], target[32];

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t len;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		len = readlink(link, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = 0;
		if (strcmp(target, "/proc/loadavg") == 0)
			return lseek(fd, 0, SEEK_CUR);
	}
	fail_msg("/proc/loadavg is not open");
	return -1;
}

/* Only the soft limit, commands_per_cpu, needs the load of the host. */
TEST(test_the_load_is_read_for_the_soft_limit_only)
{
	struct config changed = *fake->service.config;
	uint64_t limit;

	fake_service_pass(fake, 1000);
	changed.host.commands_per_cpu = 0;
	scheduler_set_config(scheduler, &changed);
	add(0, SCHED_COMMAND);
	fake_service_run(fake);
	assert_int_equal(n_begun, 1);
	assert_false(scheduler_soft_limit(scheduler, &limit));
	assert_int_equal(load_position(), 0);
	changed.host.commands_per_cpu = 3;
	scheduler_set_config(scheduler, &changed);
	add(1, SCHED_COMMAND);
	fake_service_run(fake);
	assert_int_equal(n_begun, 2);
	assert_true(scheduler_soft_limit(scheduler, &limit));
	assert_true(load_position() > 0);
}

/* All entries of a workspace continue under the tenant of the new configuration. */
TEST(test_a_tenant_that_is_made_anew)
{
	struct tenant *another = tenant_new("two");

	assert_int_equal(usage_begin(another), 0);
	another->limits.commands = 1;
	for (size_t i = 0; i < 7; i++)
		add(i, SCHED_COMMAND);
	fake_service_run(fake);
	assert_int_equal(n_begun, 5);
	scheduler_queues_move(scheduler, &queues, another);
	assert_int_equal(tenant->usage->flows[SCHED_COMMAND].n_running, 0);
	assert_int_equal(another->usage->flows[SCHED_COMMAND].n_running, 5);
	assert_int_equal(usage_waiting(another), 2);
	for (size_t i = 0; i < 4; i++)
		scheduler_remove(scheduler, &entries[i]);
	fake_service_run(fake);
	assert_int_equal(n_begun, 5);
	scheduler_remove(scheduler, &entries[4]);
	fake_service_run(fake);
	assert_int_equal(n_begun, 6);
	scheduler_remove(scheduler, &entries[5]);
	scheduler_remove(scheduler, &entries[6]);
	scheduler_queues_move(scheduler, &queues, tenant);
	tenant_release(another);
}

/* The estimate is the mean time of calls, times those that wait, over those that run. */
TEST(test_the_wait)
{
	assert_int_equal(scheduler_wait_us(scheduler, tenant), 0);
	add(0, SCHED_JOB);
	add(1, SCHED_JOB);
	add(2, SCHED_JOB);
	fake_service_run(fake);
	assert_int_equal(scheduler_wait_us(scheduler, tenant), 0);
	fake_service_pass(fake, 300);
	scheduler_remove(scheduler, &entries[0]);
	fake_service_run(fake);
	assert_int_equal(scheduler_wait_us(scheduler, tenant), 300000);
}

/* Admission. */

TEST(test_connections_that_are_refused)
{
	static const struct {
		size_t all, of_tenant, of_user;
		int reason; /* -1: admitted */
	} rows[] = {
		{0, 0, 0, -1},
		{3, 2, 1, -1},
		{4, 0, 0, ADMISSION_CONNECTIONS},
		{5, 9, 9, ADMISSION_CONNECTIONS},
		{3, 3, 0, ADMISSION_TENANT_CONNECTIONS},
		{3, 3, 2, ADMISSION_TENANT_CONNECTIONS},
		{3, 2, 2, ADMISSION_USER_CONNECTIONS},
	};
	struct admission *admission = &fake->service.admission;

	tenant->usage->connection_us = 6000000;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct refusal refusal = {0};
		uint64_t before[ADMISSION_REASONS];
		bool refused;

		memcpy(before, admission->refused, sizeof(before));
		tenant->usage->connections = rows[i].of_tenant;
		refused = TOOL_OK != admission_refuses_connection(admission, fake->service.config,
					     rows[i].all, tenant, rows[i].of_user, &refusal);
		assert_int_equal(refused, rows[i].reason >= 0);
		for (int reason = 0; reason < ADMISSION_REASONS; reason++)
			assert_int_equal(admission->refused[reason] - before[reason],
				reason == rows[i].reason);
		if (!refused)
			continue;
		assert_int_equal(refusal.error, TOOL_BUSY);
		assert_non_null(refusal.sentence);
		/* The mean time of a connection, divided by their number. */
		assert_int_equal(refusal.retry_after_ms, 6000 / (rows[i].of_tenant + 1));
	}
	tenant->usage->connections = 0;
}

TEST(test_calls_that_are_refused)
{
	static const struct {
		size_t of_connection, of_tenant, waiting;
		bool takes_turn;
		int reason;
	} rows[] = {
		{0, 0, 0, true, -1}, {2, 4, 1, true, -1},
		{3, 0, 0, false, ADMISSION_CONNECTION_CALLS},
		{3, 5, 2, true, ADMISSION_CONNECTION_CALLS},
		{2, 5, 0, false, ADMISSION_TENANT_CALLS}, {2, 4, 2, true, ADMISSION_QUEUE_LENGTH},
		{2, 4, 2, false, -1}, /* no turn is needed */
	};
	static const size_t closed[SCHED_CLASSES] = {0};
	struct admission *admission = &fake->service.admission;

	scheduler_queues_set(scheduler, &queues, closed);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct refusal refusal = {0};
		uint64_t before[ADMISSION_REASONS];
		enum tool_error error;

		memcpy(before, admission->refused, sizeof(before));

		for (size_t j = 0; j < rows[i].waiting; j++)
			add(j, SCHED_COMMAND);
		tenant->usage->calls = rows[i].of_tenant;
		error = admission_refuses_call(
			admission, tenant, rows[i].of_connection, rows[i].takes_turn, &refusal);
		assert_int_equal(error, rows[i].reason >= 0 ? TOOL_BUSY : TOOL_OK);
		for (int reason = 0; reason < ADMISSION_REASONS; reason++)
			if ((admission->refused[reason] != before[reason]) !=
				(reason == rows[i].reason))
				fail_msg("row %zu: %d", i, reason);
		for (size_t j = 0; j < rows[i].waiting; j++)
			scheduler_remove(scheduler, &entries[j]);
	}
	tenant->usage->calls = 0;
}

/* Entries that came in the same turn of the loop and can begin do not count as waiting. */
TEST(test_a_queue_that_only_looks_full)
{
	struct refusal refusal = {0};

	add(0, SCHED_COMMAND);
	add(1, SCHED_COMMAND);
	assert_int_equal(
		admission_refuses_call(&fake->service.admission, tenant, 0, true, &refusal),
		TOOL_OK);
	assert_int_equal(n_begun, 2);
}

TEST(test_when_to_try_again)
{
	static const struct {
		uint64_t took_us;
		int64_t retry_ms;
	} rows[] = {
		{0, LIMIT_RETRY_MIN_MS},
		{49000, LIMIT_RETRY_MIN_MS},
		{51000, 51},
		{59999000, 59999},
		{61000000, LIMIT_RETRY_MAX_MS},
		{UINT64_MAX / 16, LIMIT_RETRY_MAX_MS},
	};
	struct admission *admission = &fake->service.admission;
	struct refusal refusal = {0};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		tenant->usage->call_us = 0;
		admission_call_ended(tenant, rows[i].took_us);
		assert_int_equal(admission_shortage(admission, tenant), rows[i].retry_ms);
		admission_answers_unread(admission, tenant, &refusal);
		assert_int_equal(refusal.retry_after_ms, rows[i].retry_ms);
	}
	assert_int_equal(admission_shortage(admission, NULL), LIMIT_RETRY_MIN_MS);
	assert_int_equal(admission->refused[ADMISSION_SHORTAGE], ARRAY_SIZE(rows) + 1);
	assert_int_equal(admission->refused[ADMISSION_UNREAD_ANSWERS], ARRAY_SIZE(rows));
	admission_waited_too_long(admission, tenant, &refusal);
	assert_int_equal(admission->refused[ADMISSION_QUEUE_TIME], 1);
	admission_connection_ended(tenant, 800);
	assert_int_equal(tenant->usage->connection_us, 800);
}

TEST_WITH(test_names_of_reasons, NULL, NULL)
{
	for (int i = 0; i < ADMISSION_REASONS; i++) {
		assert_non_null(admission_reason_name((enum admission_reason)i));
		for (int j = 0; j < i; j++)
			assert_string_not_equal(admission_reason_name((enum admission_reason)i),
				admission_reason_name((enum admission_reason)j));
	}
}
