/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Tasks of MCP's extension: from the call that takes long to the end of what is kept. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#define ALICE 1001
#define BOB   1002
#define CAROL 1003

static const char config[] = "[cloister]\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "roots = @/root\n"
			     "managed = yes\n"
			     "command_timeout = 1h\n"
			     "session_detached = 5min\n"
			     "[tenant two]\n"
			     "users = 1002\n"
			     "roots = @/root\n"
			     "managed = yes\n"
			     "[tenant none]\n"
			     "users = 1003\n"
			     "managed = yes\n"
			     "sessions = 0\n";

#define ID_DIGITS 32
#define KEPT_MS   600000

static char id[ID_DIGITS + 1]; /* of the task that was made last */

/* clang-format off */
#define VERSION "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\""
#define TAKES   "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{" \
	"\"io.modelcontextprotocol/tasks\":{}}}"
#define TAKES_NONE "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{}}"
#define META(takes, rest) "\"_meta\":{" VERSION "," takes rest "}"
#define RUN_WITH(number, command, meta) \
	REQUEST(number, "tools/call", "{\"name\":\"run_command\",\"arguments\":{\"command\":\"" \
		command "\"}," meta "}")
#define RUN(command) RUN_WITH("7", command, META(TAKES, ""))
#define OF_LATEST(type) "\"resultType\":\"" type "\",\"_meta\":{" \
	"\"io.modelcontextprotocol/serverInfo\":{*}}"
#define TASK(status, ttl) \
	"\"taskId\":\"*\",\"status\":\"" status "\",*\"createdAt\":\"*T*Z\"," \
	"\"lastUpdatedAt\":\"*T*Z\",\"ttlMs\":" ttl ",\"pollIntervalMs\":1000"
#define CREATED RESULT("7", "{" OF_LATEST("task") "," TASK("working", "*") "}")
#define WORKING RESULT("1", "{" OF_LATEST("complete") "," TASK("working", "*") "}")
#define CANCELLED RESULT("1", "{" OF_LATEST("complete") "," TASK("cancelled", "*") "}")
#define TAKEN   RESULT("1", "{" OF_LATEST("complete") "}")
#define COMPLETED(text) RESULT("1", "{" OF_LATEST("complete") "," TASK("completed", "*") \
	",\"result\":{" OF_LATEST("complete") ",\"content\":[*]," \
	"\"structuredContent\":{*\"stdout\":\"" text "\",*},\"isError\":false}}")
#define WRONG(message)  ERROR("1", "-32602", "\"message\":\"" message "\"")
#define UNKNOWN WRONG("Task not found*")
/* clang-format on */

static int set_up(void **state)
{
	*state = fake_service_new(config);
	return 0;
}

static const struct tenant_usage *usage(void **state)
{
	const struct fake_service *service = *state;

	return service->service.config->tenants[0]->usage;
}

/* What is left ends because nobody has its workspace open, and is forgotten. */
static int tear_down(void **state)
{
	fake_service_forget(*state);
	assert_int_equal(usage(state)->tasks, 0);
	assert_int_equal(usage(state)->task_bytes, 0);
	assert_int_equal(usage(state)->unread_bytes, 0);
	assert_int_equal(usage(state)->calls, 0);
	assert_int_equal(call_count_left_behind(), 0);
	fake_service_free(*state);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Sends a request for the task. */
static void ask(struct fake_client *client, const char *method, const char *answer)
{
	char line[512];

	snprintf(line, sizeof(line), REQUEST("1", "%s", "{\"taskId\":\"%s\"," META(TAKES, "") "}"),
		method, id);
	fake_client_says(client, line, answer);
}

static struct fake_client connect_as(struct fake_service *service, uid_t uid)
{
	return fake_client_connect(service, &agent_endpoint, uid, uid);
}

/* Checks that the task was made, and notes its id. */
static void note_task(struct fake_client *client, const char *answer)
{
	static const char key[] = "\"taskId\":\"";
	const char *got = fake_client_take(client), *at;

	fake_service_match(client->service, got, answer);
	at = strstr(got, key);
	assert_non_null(at);
	memcpy(id, at + sizeof(key) - 1, ID_DIGITS);
	id[ID_DIGITS] = '\0';
	assert_int_equal(strspn(id, "0123456789abcdef"), ID_DIGITS);
}

/* Begins a command that takes so long that it becomes a task. */
static void begin(struct fake_client *client, const char *call)
{
	fake_client_says(client, call, NULL);
	fake_service_pass(client->service, LIMIT_TASK_OFFER_MS - 1);
	assert_string_equal(fake_client_take(client), "");
	fake_service_pass(client->service, 1);
	note_task(client, CREATED);
}

TEST(test_a_quick_command_is_none)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client, RUN("echo hi"),
		RESULT("7", "{" OF_LATEST("complete") ",\"content\":[*\"isError\":false}"));
	fake_service_pass(*state, LIMIT_TASK_OFFER_MS);
	assert_string_equal(fake_client_take(&client), "");
	assert_int_equal(usage(state)->tasks, 0);
	fake_client_close(&client);
}

/* It is found over another connection when its own is gone, and gives what the call would have. */
TEST(test_from_its_call_to_its_result)
{
	struct fake_service *service = *state;
	struct fake_client client = fake_client_open(service, &agent_endpoint, ALICE, "w"), other;

	service->workers_wait = true;
	begin(&client, RUN("echo hi"));
	assert_int_equal(usage(state)->tasks, 1);
	ask(&client, "tasks/get", WORKING);
	/* Its request is answered: the id is the client's again, and cancels nothing. */
	fake_client_says(
		&client, NOTIFICATION("notifications/cancelled", "{\"requestId\":7}"), NULL);
	fake_client_close(&client);
	other = connect_as(service, ALICE);
	ask(&other, "tasks/get", WORKING);
	assert_int_equal(call_count_left_behind(), 1);
	service->workers_wait = false;
	fake_service_pass(service, 1);
	ask(&other, "tasks/get", COMPLETED("hi\\n"));
	ask(&other, "tasks/get", COMPLETED("hi\\n"));
	/* Cancelling one that is over changes nothing. */
	ask(&other, "tasks/cancel", TAKEN);
	ask(&other, "tasks/get", COMPLETED("hi\\n"));
	fake_service_pass(service, KEPT_MS - 2);
	ask(&other, "tasks/get", COMPLETED("hi\\n"));
	fake_service_pass(service, 2);
	ask(&other, "tasks/get", UNKNOWN);
	fake_client_close(&other);
}

TEST(test_cancelling)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	begin(&client, RUN("stubborn"));
	ask(&client, "tasks/cancel", TAKEN);
	/* It is over when nothing is left, and no sooner. */
	ask(&client, "tasks/get", WORKING);
	fake_service_pass(*state, LIMIT_TERM_GRACE_MS);
	ask(&client, "tasks/get", CANCELLED);
	/* One whose request is cancelled is none. */
	fake_client_says(&client, RUN("stubborn"), NULL);
	fake_client_says(
		&client, NOTIFICATION("notifications/cancelled", "{\"requestId\":7}"), NULL);
	fake_service_pass(*state, LIMIT_TASK_OFFER_MS);
	assert_string_equal(fake_client_take(&client), "");
	assert_int_equal(usage(state)->tasks, 1);
	fake_client_close(&client);
}

/* A deadline is a failure of the tool, not of the request. */
TEST(test_failing)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	begin(&client,
		RUN_WITH("7", "hang", META(TAKES, ",\"cloister/options\":{\"timeout_ms\":5000}")));
	fake_service_pass(*state, 3000);
	ask(&client, "tasks/get",
		RESULT("1",
			"{" OF_LATEST("complete") ",*\"status\":\"completed\",\"statusMessage\":"
						  "\"TIMEOUT: "
						  "*\",*\"result\":{*\"code\":\"TIMEOUT\"*"
						  "\"isError\":true}}"));
	fake_client_close(&client);
}

TEST(test_who_is_offered_one)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"),
			   carol = fake_client_open(*state, &agent_endpoint, CAROL, "w");

	/* Who does not say so in the request itself, whatever an earlier one said. */
	begin(&client, RUN("hang"));
	fake_client_says(&client, RUN_WITH("8", "hang", META(TAKES_NONE, "")), NULL);
	fake_client_says(&client,
		RUN_WITH("9", "hang",
			"\"_meta\":{" VERSION ",\"io.modelcontextprotocol/"
			"clientCapabilities\":{\"extensions\":[]}}"),
		NULL);
	/* What goes on as a session, and what is sent input. */
	fake_client_says(&client,
		RUN_WITH("10", "hang", META(TAKES, ",\"cloister/options\":{\"yield_ms\":60000}")),
		NULL);
	fake_client_says(&client,
		RUN_WITH(
			"11", "hang", META(TAKES, ",\"cloister/options\":{\"stdin_stream\":true}")),
		NULL);
	/* Nothing of this tenant outlives its connection. */
	fake_client_says(&carol, RUN("hang"), NULL);
	fake_service_pass(*state, 2L * LIMIT_TASK_OFFER_MS);
	assert_string_equal(fake_client_take(&client), "");
	assert_string_equal(fake_client_take(&carol), "");
	assert_int_equal(usage(state)->tasks, 1);
	/* Each is answered when it is over. */
	fake_client_close(&carol);
	fake_client_close(&client);
}

/* A task is its tenant's. Others learn nothing, not even that there is one. */
TEST(test_whose_it_is)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"),
			   bob = fake_client_open(*state, &agent_endpoint, BOB, "w");
	char line[512];

	begin(&client, RUN("hang"));
	ask(&bob, "tasks/get", UNKNOWN);
	ask(&bob, "tasks/cancel", UNKNOWN);
	snprintf(line, sizeof(line),
		REQUEST("1", "tasks/update",
			"{\"taskId\":\"%s\",\"inputResponses\":{}," META(TAKES, "") "}"),
		id);
	fake_client_says(&bob, line, UNKNOWN);
	ask(&client, "tasks/get", WORKING);
	/* Who may not have managed workspaces any more may not use it either. */
	fake_service_reconfigure(
		*state, "[cloister]\n[tenant one]\nusers = 1001\nroots = @/root\n");
	ask(&client, "tasks/get", UNKNOWN);
	fake_service_reconfigure(*state, config);
	ask(&client, "tasks/get", WORKING);
	fake_client_close(&bob);
	fake_client_close(&client);
}

TEST(test_mistakes)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "tasks/get", "{" META(TAKES, "") "}"),
			WRONG("*taskId must be a string*")},
		{REQUEST("1", "tasks/get", "{\"taskId\":{}," META(TAKES, "") "}"),
			WRONG("*taskId must be a string*")},
		{REQUEST("1", "tasks/get", "{\"taskId\":\"\"," META(TAKES, "") "}"), UNKNOWN},
		{REQUEST("1", "tasks/cancel", "{\"taskId\":\"x\"," META(TAKES, "") "}"), UNKNOWN},
		{REQUEST("1", "tasks/update",
			 "{\"taskId\":\"x\",\"inputResponses\":{}," META(TAKES, "") "}"),
			UNKNOWN},
		{REQUEST("1", "tasks/get", "{\"taskId\":\"x\"," META(TAKES_NONE, "") "}"),
			ERROR("1", "-32021",
				"\"message\":\"Missing required client capability*\",\"data\":{"
				"\"requiredCapabilities\":{\"extensions\":{"
				"\"io.modelcontextprotocol/tasks\":{}}}}")},
		{REQUEST("1", "tasks/cancel", "{\"taskId\":\"x\"," META(TAKES_NONE, "") "}"),
			ERROR("1", "-32021", "*")},
		{REQUEST("1", "tasks/update", "{\"taskId\":\"x\"," META(TAKES_NONE, "") "}"),
			ERROR("1", "-32021", "*")},
		{REQUEST("1", "tasks/list", "{" META(TAKES, "") "}"), ERROR("1", "-32601", "*")},
		{REQUEST("1", "tasks/result", "{\"taskId\":\"x\"," META(TAKES, "") "}"),
			ERROR("1", "-32601", "*")},
		{REQUEST("1", "tasks/update",
			 "{\"taskId\":\"x\",\"_meta\":{\"io.modelcontextprotocol/"
			 "protocolVersion\":\"2025-11-25\"}}"),
			ERROR("1", "-32601", "*")},
		{REQUEST("1", "tasks/update", "{\"taskId\":\"x\"}"),
			WRONG("*are required unless initialize was sent before")},
		{NOTIFICATION("tasks/get", "{\"taskId\":\"x\"," META(TAKES, "") "}"), NULL},
	};
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	char line[512];

	fake_client_talk(&client, exchanges, ARRAY_SIZE(exchanges));
	begin(&client, RUN("hang"));
	ask(&client, "tasks/update", WRONG("*inputResponses must be an object"));
	/* No input is wanted: whatever comes is ignored, as the extension says. */
	snprintf(line, sizeof(line),
		REQUEST("1", "tasks/update",
			"{\"taskId\":\"%s\",\"inputResponses\":{\"a\":{}}," META(TAKES, "") "}"),
		id);
	fake_client_says(&client, line, TAKEN);
	ask(&client, "tasks/get", WORKING);
	fake_client_close(&client);
}

/* A command whose workspace nobody has open ends, unless somebody asks for it. */
TEST(test_nobody_comes_back)
{
	const int64_t minute = 60000, detached = 5 * minute;
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	begin(&client, RUN("hang"));
	/* It does not end while its workspace is open. */
	fake_service_pass(*state, 2 * detached);
	ask(&client, "tasks/get", WORKING);
	fake_client_close(&client);
	fake_service_pass(*state, detached - minute);
	other = connect_as(*state, ALICE);
	ask(&other, "tasks/get", WORKING);
	/* That counts from when it was asked for. */
	fake_service_pass(*state, detached - 1);
	assert_int_equal(usage(state)->calls, 1);
	fake_service_pass(*state, 2);
	assert_int_equal(usage(state)->calls, 0);
	ask(&other, "tasks/get",
		RESULT("1", "{*\"status\":\"completed\",*\"result\":{*no connection had its "
			    "workspace open*\"isError\":true}}"));
	fake_client_close(&other);
}

/* How many there may be, and what makes room. Without any, a call is answered when it is over. */
TEST(test_how_many)
{
	struct fake_service *service = *state;
	struct fake_client client = fake_client_open(service, &agent_endpoint, ALICE, "w");
	char first[sizeof(id)];

	for (size_t i = 0; i < LIMIT_TASKS_TENANT; i++) {
		service->workers_wait = true;
		begin(&client, RUN("echo hi"));
		if (i == 0)
			memcpy(first, id, sizeof(first));
		/* The command ends, and its result is kept. */
		service->workers_wait = false;
		fake_service_pass(service, 1);
	}
	assert_int_equal(usage(state)->tasks, LIMIT_TASKS_TENANT);
	service->workers_wait = true;
	fake_client_says(&client, RUN("echo hi"), NULL);
	fake_service_pass(service, LIMIT_TASK_OFFER_MS);
	assert_string_equal(fake_client_take(&client), "");
	service->workers_wait = false;
	fake_service_pass(service, 1);
	fake_service_match(service, fake_client_take(&client),
		RESULT("7", "{" OF_LATEST("complete") ",\"content\":[*\"isError\":false}"));
	/* A result that was fetched makes room: that of the last one, and not of the first. */
	ask(&client, "tasks/get", COMPLETED("hi\\n"));
	begin(&client, RUN("hang"));
	assert_int_equal(usage(state)->tasks, LIMIT_TASKS_TENANT);
	ask(&client, "tasks/get", WORKING);
	memcpy(id, first, sizeof(id));
	ask(&client, "tasks/get", COMPLETED("hi\\n"));
	fake_client_close(&client);
}
