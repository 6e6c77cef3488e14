/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process id_range */
// SPDX-License-Identifier: Apache-2.0
/* workspace.freeze and .fork on the agent socket: what stands on the disk before and after. */
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/host/id_range.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/templates.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/unit/fakes/id_range.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define ALICE 1001

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new("[tenant one]\n"
						     "users = 1001\n"
						     "managed = yes\n"
						     "templates = 2\n"
						     "workspaces_existing = 5\n");

	assert_int_equal(mkdirat(fake->scratch.fd, "templates", 0700), 0);
	fake_id_range = NULL;
	*state = fake;
	return 0;
}

static int tear_down(void **state)
{
	fake_id_range = NULL;
	fake_service_free(*state);
	return 0;
}

static void talk(void **state, const struct fake_exchange *exchanges, size_t n)
{
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, exchanges, n);
	fake_client_close(&client);
}

static bool is_there(void **state, const char *path)
{
	const struct fake_service *fake = *state;

	return faccessat(fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

#define OPEN           REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}")
#define FREEZE(params) REQUEST("1", "workspace.freeze", params)
#define FORK(params)   REQUEST("1", "workspace.fork", params)
#define REFUSED(name)  ERROR("1", "-32000", NAMED(name))
#define WRONG(message) ERROR("1", "-32602", "\"message\":\"" message "\"")
#define FROZEN(name)   RESULT("1", "{\"workspace\":\"w\",\"template\":\"" name "\"}")
#define FORKED(by, names) \
	RESULT("1", "{\"template\":\"t\",\"forked_by\":\"" by "\",\"workspaces\":[" names "]}")

static void test_forks_above_a_template(void **state)
{
	static const struct fake_exchange exchanges[] = {
		{OPEN, RESULT("1", "{*}")},
		{FREEZE("{\"template\":\"t\"}"), FROZEN("t")},
		{FREEZE("{\"template\":\"t\"}"), REFUSED("FORBIDDEN")},
		{FORK("{\"from\":\"t\",\"count\":2}"), FORKED("overlay", "\"t-1\",\"t-2\"")},
		{FORK("{\"from\":\"t\",\"prefix\":\"x\"}"), FORKED("overlay", "\"x-1\"")},
		{FORK("{\"from\":\"t\",\"count\":2}"), REFUSED("QUOTA_EXCEEDED")},
		{FORK("{\"from\":\"t\"}"), FORKED("overlay", "\"t-3\"")},
		{FREEZE("{\"template\":\"u\"}"), FROZEN("u")},
		{FREEZE("{\"template\":\"v\"}"), REFUSED("QUOTA_EXCEEDED")},
	};
	const struct fake_service *fake = *state;
	const struct tenant *tenant = fake->service.config->tenants[0];
	_cleanup_(refusal_done) struct refusal refusal = {0};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
	assert_true(is_there(state, "templates/one/t") && is_there(state, "state/one/t-3"));
	assert_true(is_there(state, "state/one/.layers-t-1/from=t") &&
		    is_there(state, "state/one/.layers-t-1/1-0") &&
		    !is_there(state, "state/one/.layers-t-1/c0=t") &&
		    is_there(state, "state/one/.layers-t-1/at-1"));
	assert_int_equal(tenant->usage->freezes, 2);
	assert_int_equal(tenant->usage->forks, 4);
	assert_int_equal(tenant->usage->copies, 0);
	assert_int_equal(
		template_remove(fake->service.workspaces, tenant, TEXT_LITERAL("t"), &refusal),
		TOOL_BUSY);
	assert_string_equal(
		refusal_text(&refusal), "4 forks use it: remove those workspaces first");
	assert_int_equal(
		template_remove(fake->service.workspaces, tenant, TEXT_LITERAL("u"), &refusal),
		TOOL_OK);
	assert_false(is_there(state, "templates/one/u"));
	assert_true(fake_spawner_dropped_template(fake->spawner));
	assert_int_equal(strncmp(fake_spawner_dropped(fake->spawner), "one/.unfinished-", 16), 0);
}

static void test_forks_with_their_own_ids(void **state)
{
	static const struct id_range range = {100000, 100000, 1000};
	static const struct fake_exchange frozen[] =
		{
			{OPEN, RESULT("1", "{*}")},
			{FREEZE("{\"template\":\"t\"}"), FROZEN("t")},
		},
					  made[] = {{FORK("{\"from\":\"t\",\"count\":2}"),
						  FORKED("copy", "\"t-1\",\"t-2\"")}},
					  refused[] = {{FORK("{\"from\":\"t\",\"count\":2}"),
						  REFUSED("NO_SPACE")}};
	struct fake_service *fake = *state;

	talk(state, frozen, ARRAY_SIZE(frozen));
	fake_id_range = &range;
	talk(state, made, 1);
	assert_true(is_there(state, "state/one/t-1") && is_there(state, "state/one/t-2"));
	assert_false(is_there(state, "state/one/.layers-t-1"));
	/* If one cannot be copied, none stays. */
	fake_spawner_refuse(fake->spawner, -ENOSPC);
	talk(state, refused, 1);
	assert_false(is_there(state, "state/one/t-3"));
	assert_int_equal(strncmp(fake_spawner_dropped(fake->spawner), "one/.unfinished-", 16), 0);
	assert_false(fake_spawner_dropped_template(fake->spawner));
	assert_int_equal(fake->service.config->tenants[0]->usage->copies, 0);
}

/* Where the spawner has the template in memory, forks with their own ids lie above it, too. */
static void test_forks_above_memory(void **state)
{
	static const struct id_range range = {100000, 100000, 1000};
	static const struct fake_exchange
		frozen[] =
			{
				{OPEN, RESULT("1", "{*}")},
				{FREEZE("{\"template\":\"t\"}"), FROZEN("t")},
			},
		made[] = {{FORK("{\"from\":\"t\",\"count\":2}"),
			FORKED("memory", "\"t-1\",\"t-2\"")}},
		copied[] = {{FORK("{\"from\":\"t\"}"),
			RESULT("1", "{\"template\":\"t\",\"forked_by\":"
				    "\"copy\",\"why_copied\":"
				    "\"other templates in use take what "
				    "template_memory gives\",\"workspaces\":"
				    "[\"t-3\"]}")}},
		opened[] = {{REQUEST("1", "workspace.open", "{\"workspace\":\"t-1\"}"),
			RESULT("1", "{*}")}},
		refused[] = {{REQUEST("1", "workspace.open", "{\"workspace\":\"t-2\"}"),
			REFUSED("BUSY")}};
	struct fake_service *fake = *state;
	const struct tenant *tenant = fake->service.config->tenants[0];
	_cleanup_(refusal_done) struct refusal refusal = {0};

	talk(state, frozen, ARRAY_SIZE(frozen));
	fake_id_range = &range;
	fake_spawner_load(fake->spawner, 0);
	talk(state, made, 1);
	assert_string_equal(fake_spawner_loaded(fake->spawner), "one/t");
	assert_true(is_there(state, "state/one/t-2") &&
		    is_there(state, "state/one/.layers-t-2/from=t"));
	assert_int_equal(
		template_remove(fake->service.workspaces, tenant, TEXT_LITERAL("t"), &refusal),
		TOOL_BUSY);
	talk(state, opened, 1);
	fake_spawner_load(fake->spawner, -ENOSPC);
	talk(state, copied, 1);
	assert_false(is_there(state, "state/one/.layers-t-3"));
	/* No cell is made of one whose template cannot be loaded. */
	talk(state, refused, 1);
	assert_int_equal(tenant->usage->copies, 0);
}

static void test_what_is_wrong(void **state)
{
	static const struct fake_exchange exchanges[] = {
		{FREEZE("{}"), WRONG("template must be*")},
		{FREEZE("{\"template\":1}"), WRONG("template must be*")},
		{FREEZE("{\"template\":\"t\"}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{OPEN, RESULT("1", "{*}")},
		{FREEZE("{\"template\":\"../t\"}"), WRONG("template must be*")},
		{FORK("{}"), WRONG("from must be*")},
		{FORK("{\"from\":\"../t\"}"), WRONG("from must be*")},
		{FORK("{\"from\":\"t\",\"count\":0}"), WRONG("count must be*")},
		{FORK("{\"from\":\"t\",\"count\":257}"), WRONG("count must be*")},
		{FORK("{\"from\":\"t\",\"prefix\":\"a/b\"}"), WRONG("prefix must have*")},
		{FORK("{\"from\":\"t\",\"tenant\":\"two\"}"), REFUSED("FORBIDDEN")},
		{FORK("{\"from\":\"t\"}"), REFUSED("NOT_FOUND")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
	assert_false(is_there(state, "templates/one/t"));
}

/* A copy that fails leaves no template, and the next call begins. */
static void test_a_copy_that_fails(void **state)
{
	static const struct fake_exchange first[] = {{OPEN, RESULT("1", "{*}")}},
					  refused[] = {{FREEZE("{\"template\":\"t\"}"),
						  REFUSED("QUOTA_EXCEEDED")}},
					  then[] = {{FREEZE("{\"template\":\"t\"}"), FROZEN("t")}};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, first, 1);
	fake_spawner_refuse(fake->spawner, -EFBIG);
	fake_client_talk(&client, refused, 1);
	assert_false(is_there(state, "templates/one/t"));
	assert_true(fake_spawner_dropped_template(fake->spawner));
	fake_spawner_refuse(fake->spawner, 0);
	fake_client_talk(&client, then, 1);
	assert_true(is_there(state, "templates/one/t"));
	fake_client_close(&client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_forks_above_a_template, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forks_with_their_own_ids, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forks_above_memory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_wrong, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_copy_that_fails, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
