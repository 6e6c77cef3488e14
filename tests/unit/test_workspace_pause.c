/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Calls that write while a workspace's commands are stopped, and how long they wait; and what such
 * a pause does to the times of commands. */
#include "common/wire/wire_commands.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/session/session.h"
#include "supervisor/session/session_use.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#define CONFIG                                                          \
	"[cloister]\nspare_cells = 0\ndisk_classes = one:64M:1000:10\n" \
	"[tenant one]\nusers = 1001\nroots = @/root\n"

static int set_up(void **state)
{
	*state = fake_service_new(CONFIG);
	return 0;
}

FIXTURE(set_up, fake_service_tear_down)

static uint64_t pauses(struct fake_service *fake)
{
	return fake->service.config->tenants[0]->usage->pauses;
}

/* A command runs until commands are to be stopped. @cgroups: they can be. */
static struct fake_client begin(struct fake_service *fake, bool cgroups)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}"), RESULT("1", "{*}")},
		{REQUEST("2", "tool.call",
			 "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\","
			 "\"timeout_ms\":600000}}"),
			NULL},
	};
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1001, 1001);

	if (cgroups)
		workspaces_set_cgroups(fake->service.workspaces, fake->managed_fd);
	fake_client_talk(&client, exchanges, 2);
	for (int ms = 0; ms < LIMIT_MEASURE_EXACT_MS; ms += LIMIT_MEASURE_RUNNING_MS)
		fake_service_pass(fake, LIMIT_MEASURE_RUNNING_MS);
	assert_int_equal(pauses(fake), 0);
	return client;
}

static void say(struct fake_service *fake, uint64_t pause, char all)
{
	struct fake_cell *cell = fake_spawner_cells(fake->spawner);

	fake_process_say(&cell->worker, COMMAND_PAUSED, pause, (struct text){&all, 1});
	fake_service_run(fake);
}

static void write_file(struct fake_client *client, const char *answer)
{
	fake_client_says(client,
		REQUEST("3", "tool.call",
			"{\"tool\":\"write_file\",\"arguments\":{\"path\":\"f\",\"content\":\"\"}"
			"}"),
		answer);
}

static void read_file(struct fake_client *client)
{
	fake_client_says(client,
		REQUEST("4", "tool.call",
			"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"}}"),
		RESULT("4", "{\"success\":true*}"));
}

#define WRITTEN RESULT("3", "{\"success\":true*}")

/* It waits until the measurement is done; what does not write does not wait. */
TEST(test_a_write_waits)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);

	write_file(&client, NULL);
	read_file(&client);
	say(fake, fake_workers_pause, 1);
	fake_client_hears(&client, WRITTEN);
	assert_int_equal(pauses(fake), 1);
	fake_client_close(&client);
}

/* The worker says that it cannot, or something of another pause, or nothing. */
TEST(test_no_longer_than_a_pause)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);

	write_file(&client, NULL);
	say(fake, fake_workers_pause + 1, 1);
	say(fake, fake_workers_pause - 1, 0);
	fake_service_pass(fake, LIMIT_PAUSE_MS - 1);
	assert_string_equal(fake_client_take(&client), "");
	fake_service_pass(fake, 1);
	fake_client_hears(&client, WRITTEN);
	assert_int_equal(pauses(fake), 1);
	say(fake, fake_workers_pause, 1); /* too late */
	write_file(&client, WRITTEN);
	fake_client_close(&client);
}

TEST(test_a_worker_that_cannot)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);

	write_file(&client, NULL);
	say(fake, fake_workers_pause, 0);
	fake_client_hears(&client, WRITTEN);
	fake_client_close(&client);
}

/* One that is in flight is waited for, and so is the end of its files process. */
TEST(test_a_write_in_flight)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);
	struct fake_cell *cell = fake_spawner_cells(fake->spawner);

	say(fake, fake_workers_pause, 1);
	assert_int_equal(pauses(fake), 1);
	fake_client_says(&client,
		REQUEST("3", "tool.call",
			"{\"tool\":\"write_file\",\"arguments\":{\"path\":\"deaf\",\"content\":"
			"\"\"}}"),
		NULL);
	for (int ms = 0; ms < LIMIT_MEASURE_EXACT_MS; ms += LIMIT_MEASURE_RUNNING_MS)
		fake_service_pass(fake, LIMIT_MEASURE_RUNNING_MS);
	say(fake, fake_workers_pause, 1);
	assert_int_equal(pauses(fake), 1);
	fake_process_end(&cell->files);
	fake_service_run(fake);
	assert_int_equal(pauses(fake), 2);
	fake_client_close(&client);
}

TEST(test_without_cgroups)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, false);

	write_file(&client, WRITTEN);
	assert_int_equal(pauses(fake), 0);
	fake_client_close(&client);
}

/* What begins now begins in a pause, and is less than that. */
#define SHORT "300"

static void pass_to(struct fake_service *fake, int64_t *at, int64_t ms)
{
	fake_service_pass(fake, ms - *at);
	*at = ms;
}

/* A command does not count as silent while it could not write. */
TEST(test_silence)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);
	int64_t at = 0;

	fake_client_says(&client,
		REQUEST("3", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"},"
			"\"options\":{\"idle_timeout_ms\":" SHORT "}}"),
		NULL);
	pass_to(fake, &at, LIMIT_PAUSE_MS);
	assert_int_equal(pauses(fake), 1);
	pass_to(fake, &at, LIMIT_PAUSE_MS + 250);
	assert_string_equal(fake_client_take(&client), "");
	pass_to(fake, &at, LIMIT_PAUSE_MS + 350);
	fake_client_hears(&client, RESULT("3", "{*\"ended_by\":\"idle_timeout\"*}"));
	fake_client_close(&client);
}

static char session_id[64], line[256];

static void note_id(void *context, const struct session *session)
{
	struct session_info info;

	(void)context;
	session_get_info(session, &info);
	snprintf(session_id, sizeof(session_id), "%s", info.id);
}

static void start_session(struct fake_client *client, const char *command)
{
	snprintf(
		line, sizeof(line), REQUEST("3", "session.start", "{\"command\":\"%s\"}"), command);
	fake_client_says(client, line, RESULT("3", "{\"session\":*}"));
	session_foreach(note_id, NULL);
}

#define READ                         \
	REQUEST("4", "session.read", \
		"{\"session\":\"%s\",\"wait_ms\":9000,\"until\":[{\"quiet_ms\":%s}]}")
#define END REQUEST("4", "session.end", "{\"session\":\"%s\",\"grace_ms\":%s}")

TEST(test_quiet)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);
	int64_t at = 0;

	start_session(&client, "hang");
	snprintf(line, sizeof(line), READ, session_id, SHORT);
	fake_client_says(&client, line, NULL);
	pass_to(fake, &at, LIMIT_PAUSE_MS);
	pass_to(fake, &at, LIMIT_PAUSE_MS + 250);
	assert_string_equal(fake_client_take(&client), "");
	pass_to(fake, &at, LIMIT_PAUSE_MS + 350);
	fake_client_hears(&client, RESULT("4", "{*\"met\":0,\"state\":\"running\"*}"));
	fake_client_close(&client);
}

/* What handles the order to end has its time to do so when it goes on. */
TEST(test_grace)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);
	int64_t at = 0;

	start_session(&client, "stubborn");
	snprintf(line, sizeof(line), END, session_id, SHORT);
	fake_client_says(&client, line, NULL);
	pass_to(fake, &at, LIMIT_PAUSE_MS);
	pass_to(fake, &at, LIMIT_PAUSE_MS + 250);
	assert_string_equal(fake_client_take(&client), "");
	pass_to(fake, &at, LIMIT_PAUSE_MS + 350);
	fake_client_hears(&client, RESULT("4", "{*\"ended_by\":\"cancel\"*}"));
	fake_client_close(&client);
}

/* It is ended at once, and the pause goes on. */
TEST(test_no_grace)
{
	struct fake_service *fake = *state;
	struct fake_client client = begin(fake, true);

	start_session(&client, "stubborn");
	snprintf(line, sizeof(line), END, session_id, "0");
	fake_client_says(&client, line, RESULT("4", "{*\"ended_by\":\"cancel\"*}"));
	assert_int_equal(pauses(fake), 0);
	fake_client_close(&client);
}
