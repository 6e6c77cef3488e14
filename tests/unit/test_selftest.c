/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer id_range */
// SPDX-License-Identifier: Apache-2.0
/* The self-test's runs: the outcome for each answer of a probe, and what prevents a run. The
 * workspace's processes give each probe the answer that the suite expects, except for one. */
#include "supervisor/selftest/selftest.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/selftest_tenants.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/control/control_selftest.h"
#include "supervisor/workspace/egress_link.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include <cmocka.h>

/* The probe that gets an unexpected answer, and that answer. */
static const char *wrong_probe, *wrong_answer;

/* Returns the first answer that @probe accepts, or the wrong one. */
static const char *answer_to(const struct selftest_probe *probe)
{
	static char answer[64];

	if (wrong_probe && strcmp(probe->name, wrong_probe) == 0)
		return wrong_answer;
	snprintf(answer, sizeof(answer), "%.*s", (int)strcspn(probe->wanted, "|"), probe->wanted);
	return answer;
}

static const struct selftest_probe *find_probe(const char *name)
{
	for (size_t i = 0; i < selftest_suite_count; i++)
		if (strcmp(selftest_suite[i].name, name) == 0)
			return &selftest_suite[i];
	fail_msg("no probe is called %s", name);
	return NULL;
}

static const char *run_probes(const char *names)
{
	static char output[16384];
	_cleanup_free_ char *copy = strdup(names);
	size_t len = 0;

	output[0] = '\0';
	for (char *name = strtok(copy, " "); name; name = strtok(NULL, " "))
		len += (size_t)snprintf(output + len, sizeof(output) - len, "%s %s\n", name,
			answer_to(find_probe(name)));
	return output;
}

static const char *on_command(const char *command)
{
	static char output[128];

	if (strncmp(command, "./probe ", 8) == 0)
		return run_probes(command + 8);
	for (size_t i = 0; i < selftest_suite_count; i++)
		if (selftest_suite[i].kind == PROBE_SHELL &&
			strcmp(selftest_suite[i].how, command) == 0) {
			snprintf(output, sizeof(output), "%s  \nmore\n",
				answer_to(&selftest_suite[i]));
			return output;
		}
	return "";
}

static int error_by_name(const char *name)
{
	if (strncmp(name, "OK", 2) == 0)
		return TOOL_OK;
	for (int error = 0; error < TOOL_ERROR_COUNT; error++)
		if (strcmp(tool_error_name((enum tool_error)error), name) == 0)
			return error;
	fail_msg("no code is called %s", name);
	return 0;
}

static bool has_member(const char *json, const char *name, const char *value, size_t len)
{
	char member[4200];

	snprintf(member, sizeof(member), "\"%s\":\"%.*s\"", name, (int)len, value);
	return strstr(json, member) != NULL;
}

/* Other characters may be escaped in the result. */
static bool is_ascii(struct text text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] >= 0x80)
			return false;
	return true;
}

/* Answers for the probe that asks @tool for @path or @pattern. */
static int on_file(const char *tool, struct text path, struct text pattern, uint64_t *ret_count)
{
	for (size_t i = 0; i < selftest_suite_count; i++) {
		const struct selftest_probe *probe = &selftest_suite[i];
		const char *answer;

		if (!probe->how || !has_member(probe->how, "tool", tool, strlen(tool)) ||
			!has_member(probe->how, "path", path.data, path.len) ||
			(pattern.len > 0 && is_ascii(pattern) &&
				!has_member(probe->how, "pattern", pattern.data, pattern.len)))
			continue;
		answer = answer_to(probe);
		if (strncmp(answer, "OK ", 3) == 0)
			*ret_count = (uint64_t)atoi(answer + 3);
		return error_by_name(answer);
	}
	return TOOL_OK;
}

/* Answers for the import of the file @path of the canary. */
static int on_import(const char *path, struct unpack_report *ret_report)
{
	static const struct {
		const char *answer;
		enum unpack_fault fault;
		int error;
	} ends[] = {
		{"PATH_OUTSIDE_WORKSPACE", UNPACK_CLIMBS, -EBADMSG},
		{"SYMLINK_OUTSIDE_WORKSPACE", UNPACK_THROUGH_LINK, -EBADMSG},
		{"FORBIDDEN", UNPACK_NONE, -SPAWNER_REFUSAL},
		{"NO_SPACE", UNPACK_NONE, -ENOSPC},
		{"BUSY", UNPACK_NONE, -EBUSY},
		{"OK 0", UNPACK_NONE, 0},
		{"OK 1", UNPACK_NONE, 0},
	};
	const char *answer = NULL;

	for (size_t i = 0; i < selftest_suite_count; i++)
		if (selftest_suite[i].kind == PROBE_IMPORT &&
			strcmp(selftest_suite[i].how, strrchr(path, '/') + 1) == 0)
			answer = answer_to(&selftest_suite[i]);
	assert_non_null(answer);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (strcmp(ends[i].answer, answer) == 0) {
			ret_report->fault = ends[i].fault;
			ret_report->special = strcmp(answer, "OK 1") == 0;
			return ends[i].error;
		}
	fail_msg("no end gives %s", answer);
	return 0;
}

static struct fake_service *fake;
static bool has_root_inside; /* a tenant */
static struct audit *audit;
static unsigned ended;

static void on_ended(const struct selftest *selftest)
{
	ended++;
	control_selftest_ended(selftest);
}

static void begin(const char *config)
{
	fake = fake_service_new(config);
	fake->service.selftest = selftest_new(&fake->service, on_ended);
	assert_non_null(fake->service.selftest);
	fake->service.selftest_refuses = selftest_refuses;
	assert_int_equal(mkdirat(fake->managed_fd, "../" TEMPLATES, 0700), 0);
	ended = 0;
	wrong_probe = NULL;
	has_root_inside = false;
	fake_workers_answers = (struct fake_answers){on_command, on_file};
	fake_spawner_imports = on_import;
}

#define CONFIG "[cloister]\nadmin_group = 50\n"
#define TENANT "[tenant one]\nusers = 1001\nroots = @/root\nmanaged = yes\n"

static int set_up(void **state)
{
	(void)state;
	begin(CONFIG "selftest = off\n" TENANT);
	return 0;
}

static int set_up_network(void **state)
{
	(void)state;
	begin(CONFIG TENANT "network = egress\n");
	return 0;
}

static int set_up_root_inside(void **state)
{
	(void)state;
	begin(CONFIG TENANT "root_inside = yes\n");
	has_root_inside = true;
	return 0;
}

static int set_up_required(void **state)
{
	(void)state;
	begin(CONFIG "selftest = required\nselftest_interval = 1h\n" TENANT);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	fake_workers_answers = (struct fake_answers){0};
	fake_spawner_imports = NULL;
	fake_id_range = NULL;
	selftest_free(fake->service.selftest);
	fake->service.selftest = NULL;
	fake_service_free(fake);
	audit_free(TAKE_PTR(audit));
	return 0;
}

/* Lets time pass until the run has ended. */
static struct selftest_summary end_run(void)
{
	struct selftest_summary summary;

	for (int i = 0; i < 200 && ended == 0; i++)
		fake_service_pass(fake, 1000);
	assert_int_equal(ended, 1);
	ended = 0;
	selftest_look_latest(fake->service.selftest, &summary);
	assert_false(summary.running);
	assert_int_equal(summary.passed + summary.failed + summary.skipped, selftest_suite_count);
	return summary;
}

/* Finds the result of the probe @name. */
struct look {
	const char *name, *outcome;
	char answer[64];
};

static void look_at(void *context, const struct selftest_result *result)
{
	struct look *look = context;

	if (strcmp(result->probe->name, look->name) != 0)
		return;
	look->outcome = result->outcome;
	snprintf(look->answer, sizeof(look->answer), "%s", result->answer);
}

static struct look result_of(const char *name)
{
	struct look look = {.name = name};

	selftest_each(fake->service.selftest, look_at, &look);
	return look;
}

static bool is_of_network(const struct selftest_probe *probe)
{
	return strncmp(probe->row, "egress-", 7) == 0;
}

/* Whether user mode skips it where no tenant has a network. */
static bool is_skipped(const struct selftest_probe *probe)
{
	return is_of_network(probe) || probe->kind == PROBE_FOREIGN ||
	       (probe->kind == PROBE_ROOT && !has_root_inside);
}

static size_t probes_skipped(void)
{
	size_t n = 0;

	for (size_t i = 0; i < selftest_suite_count; i++)
		n += is_skipped(&selftest_suite[i]);
	return n;
}

static void test_a_host_where_all_holds(void **state)
{
	struct selftest_summary summary;

	(void)state;
	selftest_look(fake->service.selftest, &summary);
	assert_int_equal(summary.state, SELFTEST_NEVER);
	assert_null(result_of("read-etc").outcome);
	selftest_start(fake->service.selftest);
	fake_service_pass(fake, 1000);
	selftest_look(fake->service.selftest, &summary);
	assert_false(summary.running);
	selftest_run(fake->service.selftest);
	selftest_look(fake->service.selftest, &summary);
	assert_true(summary.running);
	selftest_run(fake->service.selftest); /* the present run goes on */
	summary = end_run();
	for (size_t i = 0; i < selftest_suite_count; i++) {
		struct look look = result_of(selftest_suite[i].name);
		const char *wanted = is_skipped(&selftest_suite[i]) ? "skipped" : "passed";

		if (strcmp(look.outcome, wanted) != 0)
			fail_msg("%s: %s, %s", look.name, look.outcome, look.answer);
	}
	assert_int_equal(summary.state, SELFTEST_PASSED);
	assert_int_equal(summary.passed, selftest_suite_count - probes_skipped());
	assert_int_equal(summary.skipped, probes_skipped());
}

/* The probes of a network wait for cloister-egress, but not for ever, and none after the first. */
static void test_no_cloister_egress(void **state)
{
	const struct egress_start start = {.listener = open("/dev/null", O_RDONLY | O_CLOEXEC)};
	struct selftest_summary summary;

	(void)state;
	assert_int_equal(egress_link_start(&start, &fake->service.egress), 0);
	selftest_run(fake->service.selftest);
	for (int i = 0; i < 45; i++)
		fake_service_pass(fake, 100);
	selftest_look(fake->service.selftest, &summary);
	assert_true(summary.running);
	for (int i = 0; i < 10; i++)
		fake_service_pass(fake, 100);
	summary = end_run();
	assert_int_equal(summary.state, SELFTEST_PASSED);
	assert_int_equal(summary.passed, selftest_suite_count - probes_skipped());
	assert_string_equal(result_of("names-dns").outcome, "skipped");
	egress_link_free(TAKE_PTR(fake->service.egress));
	close(start.listener);
}

/* One probe of each kind, with an answer that it does not accept. */
static void test_one_that_fails(void **state)
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

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct selftest_summary summary;
		struct look look;
		bool failed;

		wrong_probe = rows[i].probe;
		wrong_answer = rows[i].answer;
		selftest_run(fake->service.selftest);
		summary = end_run();
		look = result_of(rows[i].probe);
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
	int fd = openat(fake->managed_fd, ".selftest/.layers-canary", O_RDONLY | O_DIRECTORY);
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
static void test_a_layer_of_another_id(void **state)
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

	(void)state;
	fake_id_range = &range;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct look look;

		fake_spawner_refuse_layers(fake->spawner, rows[i].error ? 3 : 0, rows[i].error);
		selftest_run(fake->service.selftest);
		assert_int_equal(end_run().failed, strcmp(rows[i].outcome, "failed") == 0);
		look = result_of("layer-foreign");
		assert_string_equal(look.outcome, rows[i].outcome);
		assert_string_equal(look.answer, rows[i].answer);
		/* The probes after it were made in a canary without that layer. */
		assert_string_equal(result_of("written-non-ascii").outcome, "passed");
	}
	assert_int_equal(count_layers(), 0);
}

static bool is_there(const char *path)
{
	struct stat stat_buf;

	return fstatat(fake->managed_fd, path, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make(const char *path)
{
	assert_int_equal(mkdirat(fake->managed_fd, path, 0700), 0);
}

/* They are made and removed in each run, also those that a death has left. */
static void test_forks_that_were_left(void **state)
{
	(void)state;
	make(SELFTEST_TENANT);
	make(SELFTEST_TENANT "/canary");
	make(SELFTEST_TENANT "/fork-7");
	make(SELFTEST_TENANT "/root-1");
	make(SELFTEST_TENANT "/.removing-root-1");
	make(SELFTEST_TENANT "/.removing-gone");
	make("../" TEMPLATES "/" SELFTEST_TENANT);
	make("../" TEMPLATES "/" SELFTEST_TENANT "/canary");
	for (int i = 0; i < 2; i++) {
		selftest_run(fake->service.selftest);
		assert_int_equal(end_run().state, SELFTEST_PASSED);
		assert_string_equal(result_of("forks-made").answer, "overlay");
		assert_string_equal(result_of("make-second").outcome, "passed");
		assert_string_equal(result_of("fork-steal").answer, "NOT_FOUND");
		assert_false(is_there(SELFTEST_TENANT "/fork-1"));
		assert_false(is_there(SELFTEST_TENANT "/fork-7"));
		assert_false(is_there(SELFTEST_TENANT "/root-1"));
		assert_true(is_there(SELFTEST_TENANT "/canary"));
		assert_false(is_there("../" TEMPLATES "/" SELFTEST_TENANT "/canary"));
	}
}

/* What keeps them from being made or shown is no hole, and is not passed. */
static void test_forks_that_cannot_be_had(void **state)
{
	(void)state;
	fake_spawner_refuse_layers(fake->spawner, 2, -EIO);
	selftest_run(fake->service.selftest);
	assert_int_equal(end_run().state, SELFTEST_PASSED);
	assert_string_equal(result_of("forks-made").outcome, "passed");
	assert_string_equal(result_of("template-shown").outcome, "skipped");
	assert_string_equal(result_of("sibling-shown").outcome, "skipped");
	assert_false(is_there(SELFTEST_TENANT "/fork-1"));
	fake_spawner_refuse_layers(fake->spawner, 0, 0);
	selftest_run(fake->service.selftest);
	assert_int_equal(end_run().state, SELFTEST_PASSED);
	assert_string_equal(result_of("template-shown").outcome, "passed");
}

static const char *say_nothing(const char *command)
{
	return strncmp(command, "./probe ", 8) == 0 ? "" : on_command(command);
}

/* If the program prints nothing, all its probes fail. */
static void test_a_program_that_says_nothing(void **state)
{
	struct look look;

	(void)state;
	fake_workers_answers.command = say_nothing;
	selftest_run(fake->service.selftest);
	assert_int_equal(end_run().state, SELFTEST_FAILED);
	look = result_of("mknod");
	assert_string_equal(look.outcome, "failed");
	assert_string_equal(look.answer, "no answer");
	assert_string_equal(result_of("read-link").outcome, "passed");
}

static void test_no_canary(void **state)
{
	(void)state;
	fake_spawner_refuse(fake->spawner, -EIO);
	/* At first it may be a want. */
	for (int i = 1; i <= LIMIT_SELFTEST_DOUBTS; i++) {
		selftest_run(fake->service.selftest);
		assert_int_equal(
			end_run().failed, i < LIMIT_SELFTEST_DOUBTS ? 0 : selftest_suite_count);
	}
	assert_string_equal(result_of("mknod").answer, "set-up: EXECUTION_ERROR");
	fake_spawner_refuse(fake->spawner, 0);
	close_fd(&fake->managed_fd);
	fake->managed_fd = open("/dev/null", O_PATH | O_CLOEXEC);
	selftest_run(fake->service.selftest);
	assert_int_equal(end_run().failed, selftest_suite_count);
	assert_non_null(strstr(result_of("mknod").answer, "no canary: "));
}

static const char open_request[] = REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}");
static const struct fake_exchange served = {open_request, RESULT("1", "{*}")},
				  busy = {open_request, ERROR("1", "-32000", NAMED("BUSY"))},
				  forbidden = {
					  open_request, ERROR("1", "-32000", NAMED("FORBIDDEN"))};

/* cloisterd serves no client before the first run, nor after a run that failed. */
static void test_one_that_is_required(void **state)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary summary;

	(void)state;
	fake_client_talk(&client, &busy, 1);
	wrong_probe = "mknod";
	wrong_answer = "OK";
	selftest_start(fake->service.selftest);
	assert_int_equal(end_run().state, SELFTEST_FAILED);
	fake_client_talk(&client, &forbidden, 1);
	/* The self-test runs again when its interval is over. */
	wrong_probe = NULL;
	fake_service_pass(fake, 3599999);
	selftest_look(fake->service.selftest, &summary);
	assert_false(summary.running);
	fake_service_pass(fake, 1);
	assert_int_equal(end_run().state, SELFTEST_PASSED);
	fake_client_talk(&client, &served, 1);
	fake_client_close(&client);
}

/* Whether a run begins after @ms milliseconds, and none before. */
static void begins_after(int64_t ms)
{
	struct selftest_summary summary;

	fake_service_pass(fake, ms - 1);
	selftest_look(fake->service.selftest, &summary);
	assert_false(summary.running);
	assert_int_equal(ended, 0);
	fake_service_pass(fake, 1);
	selftest_look(fake->service.selftest, &summary);
	assert_true(summary.running || ended > 0);
}

/* Every tenant can fill a disk: what the last run has shown stands, and the next one comes soon. */
static void test_what_the_host_lacks(void **state)
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
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary last, passed;

	(void)state;
	selftest_start(fake->service.selftest);
	passed = end_run();
	assert_int_equal(passed.state, SELFTEST_PASSED);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		wrong_probe = rows[i].probe;
		wrong_answer = rows[i].answer;
		fake_spawner_refuse(fake->spawner, wrong_probe ? 0 : -ENOSPC);
		selftest_run(fake->service.selftest);
		last = end_run();
		assert_int_equal(last.state, SELFTEST_NOT_DONE);
		assert_int_equal(last.failed, 0);
		assert_string_equal(last.obstacle, rows[i].obstacle);
		if (wrong_probe)
			assert_string_equal(result_of(wrong_probe).outcome, "skipped");
		assert_string_equal(result_of("search-non-ascii").answer, rows[i].obstacle);
		selftest_look(fake->service.selftest, &last);
		assert_int_equal(last.state, SELFTEST_PASSED);
		assert_int_equal(last.passed, passed.passed);
		assert_string_equal(last.obstacle, rows[i].obstacle);
		fake_spawner_refuse(fake->spawner, 0);
		fake_client_talk(&client, &served, 1);
		wrong_probe = NULL;
		begins_after(LIMIT_SELFTEST_RETRY_MIN_MS);
		last = end_run();
		assert_int_equal(last.state, SELFTEST_PASSED);
		assert_null(last.obstacle);
	}
	fake_client_close(&client);
}

/* Nothing is served before a run has passed. It is tried less and less often, but for ever. */
static void test_what_the_host_lacks_at_start(void **state)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	int64_t pause = LIMIT_SELFTEST_RETRY_MIN_MS;

	(void)state;
	wrong_probe = "write-link";
	wrong_answer = "NO_SPACE";
	selftest_start(fake->service.selftest);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(end_run().state, SELFTEST_NOT_DONE);
		fake_client_talk(&client, &busy, 1);
		begins_after(pause);
		pause = pause * 2 < LIMIT_SELFTEST_RETRY_MAX_MS ? pause * 2
								: LIMIT_SELFTEST_RETRY_MAX_MS;
	}
	wrong_probe = NULL;
	(void)end_run();
	begins_after(LIMIT_SELFTEST_RETRY_MAX_MS);
	assert_int_equal(end_run().state, SELFTEST_PASSED);
	fake_client_talk(&client, &served, 1);
	fake_client_close(&client);
}

/* A missing wall is no want: neither with others, nor when the probe itself brings it about. */
static void test_what_no_want_explains(void **state)
{
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);
	struct selftest_summary last;

	(void)state;
	wrong_probe = "unshare-user"; /* no seccomp filter, and none may be made */
	wrong_answer = "ENOSPC";
	selftest_start(fake->service.selftest);
	assert_int_equal(end_run().state, SELFTEST_FAILED);
	wrong_probe = "read-fifo"; /* it is opened, and waits for a writer */
	wrong_answer = "TIMEOUT";
	for (int i = 1; i <= LIMIT_SELFTEST_DOUBTS; i++) {
		selftest_run(fake->service.selftest);
		last = end_run();
		assert_int_equal(last.state,
			i < LIMIT_SELFTEST_DOUBTS ? SELFTEST_NOT_DONE : SELFTEST_FAILED);
		fake_client_talk(&client, &forbidden, 1);
	}
	assert_int_equal(last.failed, 1);
	/* After that nothing is repeated before the interval. */
	begins_after(3600000);
	assert_int_equal(end_run().state, SELFTEST_FAILED);
	fake_client_close(&client);
}

/* If the audit log is required, the calls of the self-test need it too. */
static void test_a_log_that_cannot_be_written(void **state)
{
	static const struct fake_exchange refused = {
		REQUEST("1", "selftest", "{}"), ERROR("1", "-32000", NAMED("BUSY"))};
	struct fake_client admin = fake_client_connect(fake, &control_endpoint, 1, 50);
	struct selftest_summary summary;
	char path[512];

	(void)state;
	snprintf(path, sizeof(path), "%s/log/audit.log", fake->scratch.path);
	assert_int_equal(audit_new(path, true, &(struct audit_rotation){0}, &audit), 0);
	fake->service.audit = fake->observers[0].context = audit;
	fake_audit_state.error = ENOSPC;
	selftest_start(fake->service.selftest);
	assert_non_null(selftest_obstacle(fake->service.selftest));
	fake_client_talk(&admin, &refused, 1);
	fake_service_pass(fake, LIMIT_SELFTEST_RETRY_MIN_MS);
	selftest_look(fake->service.selftest, &summary);
	assert_false(summary.running);
	/* If the log fails during a run, the run is not done and is repeated soon. */
	fake_audit_state.error = 0;
	fake->spawner_waits = true;
	fake_service_pass(fake, LIMIT_SELFTEST_RETRY_MIN_MS);
	selftest_look(fake->service.selftest, &summary);
	assert_true(summary.running);
	fake_audit_state.error = ENOSPC;
	fake->spawner_waits = false;
	assert_int_equal(end_run().state, SELFTEST_NOT_DONE);
	assert_string_equal(result_of("net-world").answer, "audit log: BUSY");
	fake_audit_state.error = 0;
	fake_service_pass(fake, LIMIT_SELFTEST_RETRY_MIN_MS);
	for (int i = 0; i < 100 && ended == 0; i++) {
		fake_audit_take();
		fake_service_pass(fake, 1);
	}
	selftest_look(fake->service.selftest, &summary);
	assert_int_equal(summary.state, SELFTEST_PASSED);
	fake_client_close(&admin);
}

/* The client that asked for a run is answered at its end. A client that watches gets an event. */
static void test_who_asks_for_it(void **state)
{
	struct fake_client admin = fake_client_connect(fake, &control_endpoint, 1, 50);
	struct fake_client watcher = fake_client_connect(fake, &control_endpoint, 1, 50);
	struct fake_client leaver = fake_client_connect(fake, &control_endpoint, 1, 50);
	const char *answer;

	(void)state;
	wrong_probe = "mknod";
	wrong_answer = "OK";
	fake_client_talk(&watcher,
		&(struct fake_exchange){REQUEST("1", "events", "{}"), RESULT("1", "{}")}, 1);
	fake->spawner_waits = true;
	fake_client_send(&admin, REQUEST("1", "selftest", "{}") "\n");
	fake_client_send(&leaver, REQUEST("1", "selftest", "{}") "\n");
	fake_client_send(&admin, NOTIFICATION("selftest", "{}") "\n");
	fake_client_talk(&admin,
		&(struct fake_exchange){REQUEST("2", "status", "{}"),
			RESULT("2", "{*\"selftest\":{\"result\":\"never\",\"running\":true,"
				    "\"required\":false,*}}")},
		1);
	fake_client_close(&leaver);
	fake->spawner_waits = false;
	end_run();
	answer = fake_client_take(&admin);
	fake_service_match(fake, answer,
		RESULT("1", "{\"result\":\"failed\",\"passed\":*,\"failed\":1,\"skipped\":*,"
			    "\"duration_ms\":*,\"probes\":[{\"row\":\"path-prefix\",\"probe\":"
			    "\"read-etc\",\"how\":\"*\",\"wanted\":\"PATH_OUTSIDE_WORKSPACE\","
			    "\"answer\":\"PATH_OUTSIDE_WORKSPACE\",\"result\":\"passed\"},*"
			    "{\"row\":\"special-file\",\"probe\":\"mknod\",\"how\":\"the probe "
			    "program\","
			    "\"wanted\":\"EPERM|EACCES\",\"answer\":\"OK\",\"result\":\"failed\"},*"
			    "]}"));
	fake_service_match(fake, fake_client_take(&watcher),
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_host_where_all_holds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_host_where_all_holds, set_up_root_inside, tear_down),
		cmocka_unit_test_setup_teardown(test_no_cloister_egress, set_up_network, tear_down),
		cmocka_unit_test_setup_teardown(test_one_that_fails, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_layer_of_another_id, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forks_that_were_left, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forks_that_cannot_be_had, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_program_that_says_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_canary, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_one_that_is_required, set_up_required, tear_down),
		cmocka_unit_test_setup_teardown(
			test_what_the_host_lacks, set_up_required, tear_down),
		cmocka_unit_test_setup_teardown(
			test_what_the_host_lacks_at_start, set_up_required, tear_down),
		cmocka_unit_test_setup_teardown(
			test_what_no_want_explains, set_up_required, tear_down),
		cmocka_unit_test_setup_teardown(
			test_a_log_that_cannot_be_written, set_up_required, tear_down),
		cmocka_unit_test_setup_teardown(test_who_asks_for_it, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
