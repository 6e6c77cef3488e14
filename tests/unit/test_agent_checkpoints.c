/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* workspace.checkpoint, .checkpoints and .rollback on the agent socket, and the exchange of cells.
 */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"

#define ALICE 1001

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new("[tenant one]\n"
						     "users = 1001\n"
						     "roots = @/root\n"
						     "managed = yes\n");

	assert_int_equal(mkdirat(fake->scratch.fd, "root/a", 0755), 0);
	*state = fake;
	return 0;
}

FIXTURE(set_up, fake_service_tear_down)

static void talk(void **state, const struct fake_exchange *exchanges, size_t n)
{
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, exchanges, n);
	fake_client_close(&client);
}

static bool is_there(void **state, const char *name)
{
	const struct fake_service *fake = *state;
	char path[256];

	snprintf(path, sizeof(path), "state/one/%s", name);
	return faccessat(fake->scratch.fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

#define OPEN               REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}")
#define CHECKPOINT(params) REQUEST("1", "workspace.checkpoint", params)
#define ROLL_BACK(params)  REQUEST("1", "workspace.rollback", params)
#define LIST               REQUEST("1", "workspace.checkpoints", "{}")
#define REFUSED(name)      ERROR("1", "-32000", NAMED(name))
#define WRONG(message)     ERROR("1", "-32602", "\"message\":\"" message "\"")
#define DONE(number)       RESULT("1", "{\"workspace\":\"w\",\"checkpoint\":" number "}")
#define LISTED(rows)       RESULT("1", "{\"workspace\":\"w\",\"checkpoints\":[" rows "]}")

#define BUSY(ms) ERROR("1", "-32000", "*\"data\":{\"code\":\"BUSY\",\"retry_after_ms\":" ms "}")
#define DIFF     REQUEST("1", "workspace.diff", "{}")

/* workspace.diff and the methods of files say the time that the refusal has. */
TEST(test_a_refused_diff_says_when_to_try_again)
{
	static const struct fake_exchange made[] = {
		{OPEN, RESULT("1", "{*}")},
		{CHECKPOINT("{}"), DONE("1")},
	};
	static const struct fake_exchange queue = {DIFF, BUSY("50")};
	static const struct fake_exchange calls[] = {
		{DIFF, BUSY("7000")},
		{REQUEST("1", "file.list", "{\"path\":\".\"}"), BUSY("7000")},
	};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	struct tenant *tenant = fake->service.config->tenants[0];

	fake_client_talk(&client, made, ARRAY_SIZE(made));
	tenant->usage->call_us = 7000 * 1000;
	tenant->limits.queue_length = 0;
	fake_client_talk(&client, &queue, 1);
	tenant->limits.calls = 0;
	fake_client_talk(&client, calls, ARRAY_SIZE(calls));
	assert_int_equal(fake->service.admission.refused[ADMISSION_SHORTAGE], 0);
	fake_client_close(&client);
}

TEST(test_what_is_wrong)
{
	static const struct fake_exchange exchanges[] = {
		{CHECKPOINT("{}"), REFUSED("WORKSPACE_NOT_FOUND")},
		{CHECKPOINT("{\"workspace\":1}"), WRONG("workspace must be a string")},
		{REQUEST("1", "workspace.open", "{\"root\":\"@/root/a\"}"), RESULT("1", "{*}")},
		{CHECKPOINT("{}"), REFUSED("FORBIDDEN")},
		{LIST, RESULT("1", "{\"workspace\":\"@/root/a\",\"checkpoints\":[]}")},
		{OPEN, RESULT("1", "{*}")},
		{CHECKPOINT("{\"label\":\"a\\u0007b\"}"), WRONG("label must be*")},
		{ROLL_BACK("{}"), WRONG("to must be*")},
		{ROLL_BACK("{\"to\":0}"), WRONG("to must be*")},
		{ROLL_BACK("{\"to\":\"1\"}"), WRONG("to must be*")},
		{ROLL_BACK("{\"to\":1}"), REFUSED("NOT_FOUND")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
	assert_false(is_there(state, ".layers-w"));
}

/* One that is asked for while a lost files process is replaced comes when the new one is there. */
TEST(test_while_a_files_process_is_replaced)
{
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake_client_says(&client, OPEN, RESULT("1", "{*}"));
	fake->spawner_waits = true;
	fake_process_end(&fake_spawner_cells(fake->spawner)->files);
	fake_service_run(fake);
	fake_client_says(&client, CHECKPOINT("{}"), "");
	fake->spawner_waits = false;
	fake_client_hears(&client, DONE("1"));
	fake_client_close(&client);
}

/* A cell whose layers cannot be mounted changes nothing. */
TEST(test_layers_that_cannot_be_mounted)
{
	static const struct fake_exchange first[] = {{OPEN, RESULT("1", "{*}")}},
					  refused[] = {{CHECKPOINT("{}"),
						  ERROR("1", "-32000", NAMED("EXECUTION_ERROR"))}},
					  then[] = {{LIST, LISTED("")},
						  {CHECKPOINT("{}"), DONE("1")}};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, first, 1);
	fake_spawner_refuse(fake->spawner, -EINVAL);
	fake_client_talk(&client, refused, 1);
	assert_false(is_there(state, ".layers-w/at-1"));
	fake_spawner_refuse(fake->spawner, 0);
	fake_client_talk(&client, then, ARRAY_SIZE(then));
	assert_true(is_there(state, ".layers-w/at-1"));
	fake_client_close(&client);
}

/* The id has no room for a layer: the rollback is in force first, so its layers are cleared. */
TEST(test_a_rollback_without_room)
{
	static const struct fake_exchange first[] = {{OPEN, RESULT("1", "{*}")},
		{CHECKPOINT("{}"), DONE("1")}, {CHECKPOINT("{}"), DONE("2")}};
	static const struct fake_exchange refused[] = {
		{CHECKPOINT("{}"), ERROR("1", "-32000", NAMED("QUOTA_EXCEEDED"))}};
	static const struct fake_exchange then[] = {
		{ROLL_BACK("{\"to\":1}"), DONE("1")},
		{LIST, LISTED("{\"checkpoint\":1,\"label\":\"\",\"created\":\"2*Z\"}")},
		{ROLL_BACK("{\"to\":1}"), DONE("1")},
	};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
	const char *said = "";

	fake_client_talk(&client, first, ARRAY_SIZE(first));
	fake_spawner_refuse(fake->spawner, -EDQUOT);
	fake_client_talk(&client, refused, 1);
	assert_true(is_there(state, ".layers-w/at-2"));
	fake_clock_start();
	fake_client_send(&client, then[0].says);
	fake_client_send(&client, "\n");
	for (int i = 0; i < 200 && !*(said = fake_client_take(&client)); i++)
		fake_clock_pass(100);
	fake_service_match(fake, said, then[0].answer);
	fake_clock_stop();
	fake_client_talk(&client, &then[1], 1);
	assert_true(is_there(state, ".layers-w/at-3") && is_there(state, ".layers-w/3-0"));
	assert_false(is_there(state, ".layers-w/1-0") || is_there(state, ".layers-w/2-1"));
	fake_spawner_refuse(fake->spawner, 0);
	fake_client_talk(&client, &then[2], 1);
	assert_true(is_there(state, ".layers-w/at-4"));
	fake_client_close(&client);
}

static void make_folded(void **state, const char *name)
{
	const struct fake_service *fake = *state;
	char path[256];

	snprintf(path, sizeof(path), "state/one/.layers-w/%s", name);
	assert_int_equal(mkdirat(fake->scratch.fd, path, 0755), 0);
}

/* What was made of two layers takes their place when no cell shows them, whatever comes then. */
TEST(test_many_checkpoints_are_folded)
{
	static const struct fake_exchange
		opened[] = {{OPEN, RESULT("1", "{*}")}},
		checkpoint[] = {{CHECKPOINT("{}"), RESULT("1", "{*}")}},
		refused[] = {{CHECKPOINT("{}"), ERROR("1", "-32000", NAMED("EXECUTION_ERROR"))}},
		listed[] = {{LIST, LISTED("{\"checkpoint\":1,*},{\"checkpoint\":3,*},"
					  "{\"checkpoint\":4,*")}},
		later[] = {{LIST, LISTED("{\"checkpoint\":1,*},{\"checkpoint\":3,*},"
					 "{\"checkpoint\":5,*")}};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);

	fake_client_talk(&client, opened, 1);
	for (int i = 0; i < LIMIT_LAYERS_FOLD - 1; i++)
		fake_client_talk(&client, checkpoint, 1);
	assert_string_equal(fake_spawner_folding(fake->spawner), "");
	fake_client_talk(&client, checkpoint, 1);
	assert_string_equal(fake_spawner_folding(fake->spawner), "one/.layers-w/2-1-0");
	make_folded(state, "folded-2-1-0");
	fake_spawner_refuse(fake->spawner, -EINVAL);
	fake_client_talk(&client, refused, 1);
	assert_true(is_there(state, ".layers-w/2-0"));
	fake_client_talk(&client, listed, 1);
	fake_spawner_refuse(fake->spawner, 0);
	fake_client_talk(&client, checkpoint, 1);
	assert_false(is_there(state, ".layers-w/2-1") || is_there(state, ".layers-w/1-0"));
	assert_string_equal(fake_spawner_folding(fake->spawner), "one/.layers-w/4-3-2");
	make_folded(state, "folded-4-3-2");
	fake_client_talk(&client, checkpoint, 1);
	fake_client_talk(&client, later, 1);
	fake_client_close(&client);
}
