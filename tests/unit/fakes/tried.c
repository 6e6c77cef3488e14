// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/tried.h"

#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_selftest.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/workers.h"

struct tried tried;

/* Returns the first answer that @probe accepts, or the wrong one. */
static const char *answer_to(const struct selftest_probe *probe)
{
	static char answer[64];

	if (tried.wrong_probe && strcmp(probe->name, tried.wrong_probe) == 0)
		return tried.wrong_answer;
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

const char *tried_command(const char *command)
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

static void on_ended(const struct selftest *selftest)
{
	tried.ended++;
	control_selftest_ended(selftest);
}

static void begin(const char *config)
{
	tried.fake = fake_service_new(config);
	tried.fake->service.selftest = selftest_new(&tried.fake->service, on_ended);
	assert_non_null(tried.fake->service.selftest);
	tried.fake->service.selftest_refuses = selftest_refuses;
	assert_int_equal(mkdirat(tried.fake->managed_fd, "../" TEMPLATES, 0700), 0);
	tried.ended = 0;
	tried.wrong_probe = NULL;
	tried.has_root_inside = false;
	fake_workers_answers = (struct fake_answers){tried_command, on_file};
	fake_spawner_imports = on_import;
}

#define CONFIG "[cloister]\nadmin_group = 50\n"
#define TENANT "[tenant one]\nusers = 1001\nroots = @/root\nmanaged = yes\n"

int tried_set_up(void **state)
{
	(void)state;
	begin(CONFIG "selftest = off\n" TENANT);
	return 0;
}

int tried_set_up_network(void **state)
{
	(void)state;
	begin(CONFIG TENANT "network = egress\n");
	return 0;
}

int tried_set_up_root_inside(void **state)
{
	(void)state;
	begin(CONFIG TENANT "root_inside = yes\n");
	tried.has_root_inside = true;
	return 0;
}

int tried_set_up_required(void **state)
{
	(void)state;
	begin(CONFIG "selftest = required\nselftest_interval = 1h\n" TENANT);
	return 0;
}

int tried_tear_down(void **state)
{
	(void)state;
	fake_workers_answers = (struct fake_answers){0};
	fake_spawner_imports = NULL;
	fake_id_range = NULL;
	selftest_free(tried.fake->service.selftest);
	tried.fake->service.selftest = NULL;
	fake_service_free(tried.fake);
	audit_free(TAKE_PTR(tried.audit));
	return 0;
}

struct selftest_summary tried_end_run(void)
{
	struct selftest_summary summary;

	for (int i = 0; i < 200 && tried.ended == 0; i++)
		fake_service_pass(tried.fake, 1000);
	assert_int_equal(tried.ended, 1);
	tried.ended = 0;
	selftest_look_latest(tried.fake->service.selftest, &summary);
	assert_false(summary.running);
	assert_int_equal(summary.passed + summary.failed + summary.skipped, selftest_suite_count);
	return summary;
}

static void look_at(void *context, const struct selftest_result *result)
{
	struct tried_look *look = context;

	if (strcmp(result->probe->name, look->name) != 0)
		return;
	look->outcome = result->outcome;
	snprintf(look->answer, sizeof(look->answer), "%s", result->answer);
}

struct tried_look tried_result(const char *name)
{
	struct tried_look look = {.name = name};

	selftest_each(tried.fake->service.selftest, look_at, &look);
	return look;
}
