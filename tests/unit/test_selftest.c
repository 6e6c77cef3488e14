/* links: cloister-supervisor */
/* fakes: tried service clock workers spawner_link process audit_writer id_range */
// SPDX-License-Identifier: Apache-2.0
/* The self-test's runs: the outcome for each answer of a probe, and what prevents a run. The
 * workspace's processes give each probe the answer that the suite expects, except for one. */
#include "supervisor/selftest/selftest.h"

#include "common/selftest_tenants.h"
#include "supervisor/audit/audit.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/workspace/network/egress_link.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/tried.h"
#include "tests/unit/fakes/workers.h"

#include <dirent.h>

static bool is_of_network(const struct selftest_probe *probe)
{
	return strncmp(probe->row, "egress-", 7) == 0;
}

/* Whether user mode skips it where no tenant has a network. */
static bool is_skipped(const struct selftest_probe *probe)
{
	return is_of_network(probe) || probe->kind == PROBE_FOREIGN ||
	       (probe->kind == PROBE_ROOT && !tried.has_root_inside);
}

static size_t probes_skipped(void)
{
	size_t n = 0;

	for (size_t i = 0; i < selftest_suite_count; i++)
		n += is_skipped(&selftest_suite[i]);
	return n;
}

static void assert_all_holds(void)
{
	struct selftest_summary summary;

	selftest_look(tried.fake->service.selftest, &summary);
	assert_int_equal(summary.state, SELFTEST_NEVER);
	assert_null(tried_result("read-etc").outcome);
	selftest_start(tried.fake->service.selftest);
	fake_service_pass(tried.fake, 1000);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_false(summary.running);
	selftest_run(tried.fake->service.selftest);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_true(summary.running);
	selftest_run(tried.fake->service.selftest); /* the present run goes on */
	summary = tried_end_run();
	for (size_t i = 0; i < selftest_suite_count; i++) {
		struct tried_look look = tried_result(selftest_suite[i].name);
		const char *wanted = is_skipped(&selftest_suite[i]) ? "skipped" : "passed";

		if (strcmp(look.outcome, wanted) != 0)
			fail_msg("%s: %s, %s", look.name, look.outcome, look.answer);
	}
	assert_int_equal(summary.state, SELFTEST_PASSED);
	assert_int_equal(summary.passed, selftest_suite_count - probes_skipped());
	assert_int_equal(summary.skipped, probes_skipped());
}

FIXTURE(tried_set_up, tried_tear_down)

TEST(test_a_host_where_all_holds)
{
	assert_all_holds();
}

TEST_WITH(test_a_host_where_roots_inside_hold, tried_set_up_root_inside, tried_tear_down)
{
	assert_all_holds();
}

/* The probes of a network wait for cloister-egress, but not for ever, and none after the first. */
TEST_WITH(test_no_cloister_egress, tried_set_up_network, tried_tear_down)
{
	const struct egress_start start = {.listener = open("/dev/null", O_RDONLY | O_CLOEXEC)};
	struct selftest_summary summary;

	assert_int_equal(egress_link_start(&start, &tried.fake->service.egress), 0);
	selftest_run(tried.fake->service.selftest);
	for (int i = 0; i < 45; i++)
		fake_service_pass(tried.fake, 100);
	selftest_look(tried.fake->service.selftest, &summary);
	assert_true(summary.running);
	for (int i = 0; i < 10; i++)
		fake_service_pass(tried.fake, 100);
	summary = tried_end_run();
	assert_int_equal(summary.state, SELFTEST_PASSED);
	assert_int_equal(summary.passed, selftest_suite_count - probes_skipped());
	assert_string_equal(tried_result("names-dns").outcome, "skipped");
	egress_link_free(TAKE_PTR(tried.fake->service.egress));
	close(start.listener);
}

/* One probe of each kind, with an answer that it does not accept. */
TEST(test_one_that_fails)
{
	static const struct {
		const char *probe, *answer, *outcome, *noted;
	} rows[] = {
		{"read-link", "OK", "failed", "OK"},                         /* PROBE_CALL */
		{"search-follows-none", "NOT_FOUND", "failed", "NOT_FOUND"}, /* PROBE_COUNT */
		{"cwd-returns", "/", "failed", "/"},                         /* PROBE_SHELL */
		{"import-device", "OK 0", "failed", "OK 0"},                 /* PROBE_IMPORT */
		{"import-link", "OK 0", "failed", "OK 0"},
		{"import-parent", "FORBIDDEN", "failed", "FORBIDDEN"},
		{"import-parent", "NO_SPACE", "skipped", "NO_SPACE"},
		{"import-parent", "BUSY", "skipped", "BUSY"},
		{"template-shown", "changed", "failed", "changed"}, /* PROBE_FORKED */
		{"sibling-made", "OK", "failed", "OK"},             /* PROBE_SIBLING */
		{"mknod", "OK", "failed", "OK"},                    /* PROBE_PROGRAM */
		{"mknod", "EACCES", "passed", "EACCES"}, /* the second of the accepted answers */
		{"mknod", "skipped", "skipped", "skipped"},
		{"mknod", "EPERM|EACCES", "failed", "EPERM|EACCES"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct selftest_summary summary;
		struct tried_look look;
		bool failed;

		tried.wrong_probe = rows[i].probe;
		tried.wrong_answer = rows[i].answer;
		selftest_run(tried.fake->service.selftest);
		summary = tried_end_run();
		look = tried_result(rows[i].probe);
		if (strcmp(look.outcome, rows[i].outcome) != 0 ||
			strcmp(look.answer, rows[i].noted) != 0)
			fail_msg("%s: %s, %s", rows[i].probe, look.outcome, look.answer);
		failed = strcmp(rows[i].outcome, "failed") == 0;
		assert_int_equal(summary.failed, failed);
		assert_int_equal(summary.skipped,
			probes_skipped() + (strcmp(rows[i].outcome, "skipped") == 0));
		assert_int_equal(summary.state, failed ? SELFTEST_FAILED : SELFTEST_PASSED);
	}
}

/* How many layers the canary has on disk, but for those that the spawner is to clear. */
static size_t count_layers(void)
{
	int fd = openat(tried.fake->managed_fd, ".selftest/.layers-canary", O_RDONLY | O_DIRECTORY);
	DIR *layers = fdopendir(fd);
	const struct dirent *entry;
	size_t n = 0;

	assert_non_null(layers);
	while ((entry = readdir(layers)))
		n += entry->d_name[0] != '.';
	closedir(layers);
	return n;
}

/* A layer of another id must not be shown, and what is shown all the same does not stay. */
TEST(test_a_layer_of_another_id)
{
	static const struct id_range range = {100000, 100000, 1000};
	static const struct {
		int error;
		const char *outcome, *answer;
	} rows[] = {
		{-SPAWNER_REFUSAL, "passed", "FORBIDDEN"},
		{0, "failed", "OK"},
		{-EIO, "skipped", "EXECUTION_ERROR"},
		{-SPAWNER_REFUSAL, "passed", "FORBIDDEN"},
	};

	fake_id_range = &range;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tried_look look;

		fake_spawner_refuse_layers(
			tried.fake->spawner, rows[i].error ? 3 : 0, rows[i].error);
		selftest_run(tried.fake->service.selftest);
		assert_int_equal(tried_end_run().failed, strcmp(rows[i].outcome, "failed") == 0);
		look = tried_result("layer-foreign");
		assert_string_equal(look.outcome, rows[i].outcome);
		assert_string_equal(look.answer, rows[i].answer);
		/* The probes after it were made in a canary without that layer. */
		assert_string_equal(tried_result("written-non-ascii").outcome, "passed");
	}
	assert_int_equal(count_layers(), 0);
}

static bool is_there(const char *path)
{
	struct stat stat_buf;

	return fstatat(tried.fake->managed_fd, path, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make(const char *path)
{
	assert_int_equal(mkdirat(tried.fake->managed_fd, path, 0700), 0);
}

/* They are made and removed in each run, also those that a death has left. */
TEST(test_forks_that_were_left)
{
	make(SELFTEST_TENANT);
	make(SELFTEST_TENANT "/canary");
	make(SELFTEST_TENANT "/fork-7");
	make(SELFTEST_TENANT "/root-1");
	make(SELFTEST_TENANT "/.removing-root-1");
	make(SELFTEST_TENANT "/.removing-gone");
	make("../" TEMPLATES "/" SELFTEST_TENANT);
	make("../" TEMPLATES "/" SELFTEST_TENANT "/canary");
	for (int i = 0; i < 2; i++) {
		selftest_run(tried.fake->service.selftest);
		assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
		assert_string_equal(tried_result("forks-made").answer, "overlay");
		assert_string_equal(tried_result("make-second").outcome, "passed");
		assert_string_equal(tried_result("fork-steal").answer, "NOT_FOUND");
		assert_false(is_there(SELFTEST_TENANT "/fork-1"));
		assert_false(is_there(SELFTEST_TENANT "/fork-7"));
		assert_false(is_there(SELFTEST_TENANT "/root-1"));
		assert_true(is_there(SELFTEST_TENANT "/canary"));
		assert_false(is_there("../" TEMPLATES "/" SELFTEST_TENANT "/canary"));
	}
}

/* What keeps them from being made or shown is no hole, and is not passed. */
TEST(test_forks_that_cannot_be_had)
{
	fake_spawner_refuse_layers(tried.fake->spawner, 2, -EIO);
	selftest_run(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
	assert_string_equal(tried_result("forks-made").outcome, "passed");
	assert_string_equal(tried_result("template-shown").outcome, "skipped");
	assert_string_equal(tried_result("sibling-shown").outcome, "skipped");
	assert_false(is_there(SELFTEST_TENANT "/fork-1"));
	fake_spawner_refuse_layers(tried.fake->spawner, 0, 0);
	selftest_run(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().state, SELFTEST_PASSED);
	assert_string_equal(tried_result("template-shown").outcome, "passed");
}

static const char *say_nothing(const char *command)
{
	return strncmp(command, "./probe ", 8) == 0 ? "" : tried_command(command);
}

/* If the program prints nothing, all its probes fail. */
TEST(test_a_program_that_says_nothing)
{
	struct tried_look look;

	fake_workers_answers.command = say_nothing;
	selftest_run(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().state, SELFTEST_FAILED);
	look = tried_result("mknod");
	assert_string_equal(look.outcome, "failed");
	assert_string_equal(look.answer, "no answer");
	assert_string_equal(tried_result("read-link").outcome, "passed");
}

TEST(test_no_canary)
{
	fake_spawner_refuse(tried.fake->spawner, -EIO);
	/* Until it has lasted for minutes, the host may only lack something for a moment. */
	for (int i = 1; i <= LIMIT_SELFTEST_DOUBTS; i++) {
		selftest_run(tried.fake->service.selftest);
		assert_int_equal(tried_end_run().failed,
			i < LIMIT_SELFTEST_DOUBTS ? 0 : selftest_suite_count);
		if (i < LIMIT_SELFTEST_DOUBTS) {
			fake_service_pass(tried.fake, LIMIT_SELFTEST_DOUBT_MS);
			tried.ended = 0;
		}
	}
	assert_string_equal(tried_result("mknod").answer, "set-up: EXECUTION_ERROR");
	fake_spawner_refuse(tried.fake->spawner, 0);
	close_fd(&tried.fake->managed_fd);
	tried.fake->managed_fd = open("/dev/null", O_PATH | O_CLOEXEC);
	selftest_run(tried.fake->service.selftest);
	assert_int_equal(tried_end_run().failed, selftest_suite_count);
	assert_non_null(strstr(tried_result("mknod").answer, "no canary: "));
}

/* The client that asked for a run is answered at its end. A client that watches gets an event. */
TEST(test_who_asks_for_it)
{
	struct fake_client admin = fake_client_connect(tried.fake, &control_endpoint, 1, 50);
	struct fake_client watcher = fake_client_connect(tried.fake, &control_endpoint, 1, 50);
	struct fake_client leaver = fake_client_connect(tried.fake, &control_endpoint, 1, 50);
	const char *answer;

	tried.wrong_probe = "mknod";
	tried.wrong_answer = "OK";
	fake_client_talk(&watcher,
		&(struct fake_exchange){REQUEST("1", "events", "{}"), RESULT("1", "{}")}, 1);
	tried.fake->spawner_waits = true;
	fake_client_send(&admin, REQUEST("1", "selftest", "{}") "\n");
	fake_client_send(&leaver, REQUEST("1", "selftest", "{}") "\n");
	fake_client_send(&admin, NOTIFICATION("selftest", "{}") "\n");
	fake_client_talk(&admin,
		&(struct fake_exchange){REQUEST("2", "status", "{}"),
			RESULT("2", "{*\"selftest\":{\"result\":\"never\",\"running\":true,"
				    "\"required\":false,*}}")},
		1);
	fake_client_close(&leaver);
	tried.fake->spawner_waits = false;
	tried_end_run();
	answer = fake_client_take(&admin);
	fake_service_match(tried.fake, answer,
		RESULT("1", "{\"result\":\"failed\",\"passed\":*,\"failed\":1,\"skipped\":*,"
			    "\"duration_ms\":*,\"probes\":[{\"row\":\"path-prefix\",\"probe\":"
			    "\"read-etc\",\"how\":\"*\",\"wanted\":\"PATH_OUTSIDE_WORKSPACE\","
			    "\"answer\":\"PATH_OUTSIDE_WORKSPACE\",\"result\":\"passed\"},*"
			    "{\"row\":\"special-file\",\"probe\":\"mknod\",\"how\":\"the probe "
			    "program\","
			    "\"wanted\":\"EPERM|EACCES\",\"answer\":\"OK\",\"result\":\"failed\"},*"
			    "]}"));
	fake_service_match(tried.fake, fake_client_take(&watcher),
		"*" NOTIFICATION("event",
			"{\"event\":\"selftest\",\"time_ms\":*,\"result\":\"failed\","
			"\"passed\":*,\"failed\":1,\"skipped\":*,\"duration_ms\":*}") "*");
	fake_client_send(&admin, REQUEST("3", "metrics", "{}") "\n");
	answer = fake_client_take(&admin);
	assert_non_null(strstr(answer, "cloister_selftest_probes{result=\\\"failed\\\"} 1\\n"));
	assert_non_null(strstr(answer, "cloister_selftest_last_run_timestamp_seconds "));
	fake_client_close(&admin);
	fake_client_close(&watcher);
}
