/* links: cloister-supervisor */
/* fakes: tried service clock workers spawner_link process audit_writer id_range */
// SPDX-License-Identifier: Apache-2.0
/* What a run of the self-test shows: one that is required, and one that lacks something. */
#include "supervisor/selftest/selftest.h"

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/control/control_endpoint.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/tried.h"
#include "tests/unit/fakes/workers.h"

static const char open_request[] = REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}");
static const struct fake_exchange served = {open_request, RESULT("1", "{*}")},
				  busy = {open_request, ERROR("1", "-32000", NAMED("BUSY"))},
				  forbidden = {
					  open_request, ERROR("1", "-32000", NAMED("FORBIDDEN"))};

FIXTURE(tried_set_up_required, tried_tear_down)

/* cloisterd serves no client before the first run, nor after a run that failed. */
TEST(test_one_that_is_required)
{
	struct fake_client client = fake_client_connect(tried.fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary summary;

	fake_client_talk(&client, &busy, 1);
	tried.wrong_probe = "mknod";
	tried.wrong_answer = "OK";
	selftest_start(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	fake_client_talk(&client, &forbidden, 1);
	/* The self-test runs again when its interval is over. */
	tried.wrong_probe = NULL;
	fake_service_pass(tried.fake, 3599999);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_false(summary.running);
	fake_service_pass(tried.fake, 1);
	assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
	fake_client_talk(&client, &served, 1);
	fake_client_close(&client);
}

/* Whether a run begins after @ms milliseconds, and none before. */
static void begins_after(int64_t ms)
{
	struct selftest_summary summary;

	fake_service_pass(tried.fake, ms - 1);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_false(summary.running);
	assert_int_equal(tried.ended, 0);
	fake_service_pass(tried.fake, 1);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_true(summary.running || tried.ended > 0);
}

/* Every tenant can fill a disk: what the last run has shown stands, and the next one comes soon. */
TEST(test_what_the_host_lacks)
{
	static const struct {
		const char *probe, *answer, *obstacle;
	} rows[] = {
		{"read-link", "NO_SPACE", "read-link: NO_SPACE"},
		{"write-link", "QUOTA_EXCEEDED", "write-link: QUOTA_EXCEEDED"},
		{"read-link", "BUSY", "read-link: BUSY"},
		{"read-link", "WORKER_LOST", "read-link: WORKER_LOST"},
		{"archive-write", "ENOSPC", "archive-write: ENOSPC"},
		{NULL, NULL, "set-up: EXECUTION_ERROR"},
	};
	struct fake_client client = fake_client_connect(tried.fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary last, passed;

	selftest_start(tried.fake->service.selftest);
	passed = tried_end_run();
	assert_int_equal(passed.state, SELFTEST_PASSED);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		tried.wrong_probe = rows[i].probe;
		tried.wrong_answer = rows[i].answer;
		fake_spawner_refuse(tried.fake->spawner, tried.wrong_probe ? 0 : -ENOSPC);
		selftest_run(tried.fake->service.selftest);
		last = tried_end_run();
		assert_int_equal(last.state, SELFTEST_NOT_DONE);
		assert_int_equal(last.failed, 0);
		assert_string_equal(last.obstacle, rows[i].obstacle);
		if (tried.wrong_probe)
			assert_string_equal(tried_result(tried.wrong_probe).outcome, "skipped");
		assert_string_equal(tried_result("search-non-ascii").answer, rows[i].obstacle);
		selftest_look(tried.fake->service.selftest, &last);
		assert_int_equal(last.state, SELFTEST_PASSED);
		assert_int_equal(last.passed, passed.passed);
		assert_string_equal(last.obstacle, rows[i].obstacle);
		fake_spawner_refuse(tried.fake->spawner, 0);
		fake_client_talk(&client, &served, 1);
		tried.wrong_probe = NULL;
		begins_after(LIMIT_SELFTEST_RETRY_MIN_MS);
		last = tried_end_run();
		assert_int_equal(last.state, SELFTEST_PASSED);
		assert_null(last.obstacle);
	}
	fake_client_close(&client);
}

/* Nothing is served before a run has passed. It is tried less and less often, but for ever. */
TEST(test_what_the_host_lacks_at_start)
{
	struct fake_client client = fake_client_connect(tried.fake, &agent_endpoint, 1001, 1001);
	int64_t pause = LIMIT_SELFTEST_RETRY_MIN_MS;

	tried.wrong_probe = "write-link";
	tried.wrong_answer = "NO_SPACE";
	selftest_start(tried.fake->service.selftest);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(tried_end_run().state, SELFTEST_NOT_DONE);
		fake_client_talk(&client, &busy, 1);
		begins_after(pause);
		pause = pause * 2 < LIMIT_SELFTEST_RETRY_MAX_MS ? pause * 2
								: LIMIT_SELFTEST_RETRY_MAX_MS;
	}
	tried.wrong_probe = NULL;
	(void)tried_end_run();
	begins_after(LIMIT_SELFTEST_RETRY_MAX_MS);
	assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
	fake_client_talk(&client, &served, 1);
	fake_client_close(&client);
}

/* Lets the time pass after which a doubt counts again, with the runs that are made meanwhile. */
static void pass_doubt(void)
{
	fake_service_pass(tried.fake, LIMIT_SELFTEST_DOUBT_MS);
	tried.ended = 0;
}

/* For a minute no process can be made: nobody is refused for it, and the next run is made soon. */
TEST(test_a_minute_without_processes)
{
	static const struct {
		const char *probe, *answer;
		int refusal; /* of the spawner */
		const char *obstacle;
	} rows[] = {
		{NULL, NULL, -EAGAIN, "set-up: BUSY"},
		{NULL, NULL, -ENOMEM, "set-up: BUSY"},
		{NULL, NULL, -ENFILE, "set-up: BUSY"},
		{NULL, NULL, -EIO, "set-up: EXECUTION_ERROR"},
		{"read-link", "PROCESS_LIMIT", 0, "read-link: PROCESS_LIMIT"},
		{"archive-write", "EAGAIN", 0, "archive-write: EAGAIN"},
	};
	struct fake_client client = fake_client_connect(tried.fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary last;

	selftest_start(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		tried.wrong_probe = rows[i].probe;
		tried.wrong_answer = rows[i].answer;
		fake_spawner_refuse(tried.fake->spawner, rows[i].refusal);
		for (int runs = 0; runs < 20; runs++) {
			selftest_run(tried.fake->service.selftest);
			last = tried_end_run();
			assert_int_equal(last.state, SELFTEST_NOT_DONE);
			assert_string_equal(last.obstacle, rows[i].obstacle);
			fake_service_pass(tried.fake, 500);
		}
		fake_spawner_refuse(tried.fake->spawner, 0);
		tried.wrong_probe = NULL;
		fake_client_talk(&client, &served, 1);
		begins_after(LIMIT_SELFTEST_RETRY_MAX_MS - 500);
		assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
	}
	fake_client_close(&client);
}

/* A missing wall is no want: neither with others, nor when the probe itself brings it about. */
TEST(test_what_no_want_explains)
{
	struct fake_client client = fake_client_connect(tried.fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary last;

	tried.wrong_probe = "unshare-user"; /* no seccomp filter, and none may be made */
	tried.wrong_answer = "ENOSPC";
	selftest_start(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	tried.wrong_probe = "read-fifo"; /* it is opened, and waits for a writer */
	tried.wrong_answer = "TIMEOUT";
	for (int i = 1; i <= LIMIT_SELFTEST_DOUBTS; i++) {
		selftest_run(tried.fake->service.selftest);
		last = tried_end_run();
		assert_int_equal(last.state,
			i < LIMIT_SELFTEST_DOUBTS ? SELFTEST_NOT_DONE : SELFTEST_FAILED);
		fake_client_talk(&client, &forbidden, 1);
		if (i < LIMIT_SELFTEST_DOUBTS)
			pass_doubt();
	}
	assert_int_equal(last.failed, 1);
	/* After that one is made soon, and again. */
	begins_after(LIMIT_SELFTEST_RETRY_MAX_MS);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	begins_after(LIMIT_SELFTEST_RETRY_MAX_MS);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	/* A wrong answer that is no want's waits for the interval. */
	tried.wrong_answer = "OK";
	begins_after(LIMIT_SELFTEST_RETRY_MAX_MS);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	begins_after(3600000);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	fake_client_close(&client);
}

/* If the tried.audit log is required, the calls of the self-test need it too. */
TEST(test_a_log_that_cannot_be_written)
{
	static const struct fake_exchange refused = {
		REQUEST("1", "selftest", "{}"), ERROR("1", "-32000", NAMED("BUSY"))};
	struct fake_client admin = fake_client_connect(tried.fake, &control_endpoint, 1, 50);
	struct selftest_summary summary;
	char path[512];

	snprintf(path, sizeof(path), "%s/log/audit.log", tried.fake->scratch.path);
	assert_int_equal(audit_new(path, true, &(struct audit_rotation){0}, &tried.audit), 0);
	tried.fake->service.audit = tried.fake->observers[0].context = tried.audit;
	fake_audit_state.error = ENOSPC;
	selftest_start(tried.fake->service.selftest);
	assert_non_null(selftest_obstacle(tried.fake->service.selftest));
	fake_client_talk(&admin, &refused, 1);
	fake_service_pass(tried.fake, LIMIT_SELFTEST_RETRY_MIN_MS);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_false(summary.running);
	/* If the log fails during a run, the run is not done and is repeated soon. */
	fake_audit_state.error = 0;
	tried.fake->spawner_waits = true;
	fake_service_pass(tried.fake, LIMIT_SELFTEST_RETRY_MIN_MS);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_true(summary.running);
	fake_audit_state.error = ENOSPC;
	tried.fake->spawner_waits = false;
	assert_int_equal(tried_end_run().state, SELFTEST_NOT_DONE);
	assert_string_equal(tried_result("net-world").answer, "audit log: BUSY");
	fake_audit_state.error = 0;
	fake_service_pass(tried.fake, LIMIT_SELFTEST_RETRY_MIN_MS);
	for (int i = 0; i < 100 && tried.ended == 0; i++) {
		fake_audit_take();
		fake_service_pass(tried.fake, 1);
	}
	selftest_look(tried.fake->service.selftest, &summary);
	assert_int_equal(summary.state, SELFTEST_PASSED);
	fake_client_close(&admin);
}
