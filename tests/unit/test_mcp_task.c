/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Tasks of MCP 2025-11-25: from the call that becomes one to the end of its time. */
#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/agent/mcp_progress.h"
#include "supervisor/config/config.h"
#include "supervisor/schedule/usage.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static int set_up(void **state)
{
	*state = fake_service_new(NULL);
	return 0;
}

static int tear_down(void **state)
{
	fake_service_free(*state);
	return 0;
}

#define ID_DIGITS 32

/* clang-format off */
#define INITIALIZE \
	REQUEST("1", "initialize", "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{}," \
		"\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}}")
#define CALL(command, task) \
	REQUEST("7", "tools/call", "{\"name\":\"run_command\",\"arguments\":{\"command\":\"" \
		command "\"},\"task\":" task "}")
#define TASK(status, ttl) \
	"\"taskId\":\"*\",\"status\":\"" status "\",*\"createdAt\":\"*T*Z\"," \
	"\"lastUpdatedAt\":\"*T*Z\",\"ttl\":" ttl ",\"pollInterval\":*"
#define CREATED(ttl) RESULT("7", "{\"task\":{" TASK("working", ttl) "}}")
#define TOLD(status, ttl) NOTIFICATION("notifications/tasks/status", "{" TASK(status, ttl) "}")
#define WRONG(message)  ERROR("1", "-32602", "\"message\":\"" message "\"")
#define OUTPUT(text) \
	"{\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"*\"}}," \
	"\"content\":[{\"type\":\"text\",\"text\":\"*\"}],\"structuredContent\":{*" \
	"\"stdout\":\"" text "\",*},\"isError\":false}"
/* clang-format on */

static struct fake_client connect(struct fake_service *service)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}"), RESULT("0", "{*}")},
		{INITIALIZE, RESULT("1", "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{"
					 "\"tools\":{},\"tasks\":{\"list\":{},\"cancel\":{},"
					 "\"requests\":{\"tools\":{\"call\":{}}}}},*}")},
	};
	struct fake_client client = fake_client_connect(service, &agent_endpoint, 1000, 1000);

	fake_client_talk(&client, exchanges, ARRAY_SIZE(exchanges));
	return client;
}

/* Sends a request with the id of a task. */
static void ask(struct fake_client *client, const char *method, const char *id, const char *answer)
{
	char line[256];

	snprintf(line, sizeof(line), REQUEST("1", "%s", "{\"taskId\":\"%s\"}"), method, id);
	fake_client_says(client, line, answer);
}

/* Begins a task, and stores its id. What else the client is told goes into @ret_rest. */
static void begin(struct fake_client *client, const char *call, char id[static ID_DIGITS + 1],
	const char *answer)
{
	static const char key[] = "\"taskId\":\"";
	const char *got, *at;

	fake_client_send(client, call);
	fake_client_send(client, "\n");
	fake_service_run(client->service);
	got = fake_client_take(client);
	fake_service_match(client->service, got, answer);
	at = strstr(got, key);
	assert_non_null(at);
	memcpy(id, at + sizeof(key) - 1, ID_DIGITS);
	id[ID_DIGITS] = '\0';
	assert_int_equal(strspn(id, "0123456789abcdef"), ID_DIGITS);
}

static const struct tenant_usage *usage(void **state)
{
	const struct fake_service *service = *state;

	return service->service.config->tenants[0]->usage;
}

static void test_from_its_call_to_its_result(void **state)
{
	struct fake_client client = connect(*state);
	char id[ID_DIGITS + 1], other[ID_DIGITS + 1];

	begin(&client, CALL("echo hi", "{}"), id,
		CREATED("600000") "\n" TOLD("completed", "600000"));
	ask(&client, "tasks/get", id, RESULT("1", "{" TASK("completed", "600000") "}"));
	/* More than once, and the same each time. */
	ask(&client, "tasks/result", id, RESULT("1", OUTPUT("hi\\n")));
	ask(&client, "tasks/result", id, RESULT("1", OUTPUT("hi\\n")));
	begin(&client, CALL("echo hi", "{\"ttl\":70000}"), other,
		CREATED("70000") "\n" TOLD("completed", "70000"));
	assert_string_not_equal(id, other);
	fake_client_says(&client, REQUEST("1", "tasks/list", "{}"),
		RESULT("1", "{\"tasks\":[{" TASK("completed", "600000") "},{" TASK(
				    "completed", "70000") "}]}"));
	fake_client_close(&client);
	fake_service_run(*state);
	assert_int_equal(usage(state)->tasks, 0);
	assert_int_equal(usage(state)->task_bytes, 0);
	assert_int_equal(usage(state)->unread_bytes, 0);
}

/* A tasks/result waits for the end of the command, and is itself a request that can be cancelled.
 */
static void test_waiting_for_the_result(void **state)
{
	struct fake_client client = connect(*state);
	char id[ID_DIGITS + 1], line[256];

	begin(&client, CALL("say one", "{}"), id, CREATED("600000"));
	ask(&client, "tasks/get", id, RESULT("1", "{" TASK("working", "600000") "}"));
	snprintf(line, sizeof(line), REQUEST("8", "tasks/result", "{\"taskId\":\"%s\"}"), id);
	fake_client_says(&client, line, NULL);
	snprintf(line, sizeof(line), REQUEST("9", "tasks/result", "{\"taskId\":\"%s\"}"), id);
	fake_client_says(&client, line, NULL);
	fake_client_says(
		&client, NOTIFICATION("notifications/cancelled", "{\"requestId\":8}"), NULL);
	/* The request that made the task is answered: its id means nothing any more. */
	fake_client_says(
		&client, NOTIFICATION("notifications/cancelled", "{\"requestId\":7}"), NULL);
	fake_client_says(&client, REQUEST("1", "tool.cancel", "{\"id\":7}"),
		RESULT("1", "{\"cancelled\":false}"));
	ask(&client, "tasks/get", id, RESULT("1", "{" TASK("working", "600000") "}"));
	snprintf(line, sizeof(line), REQUEST("8", "tasks/result", "{\"taskId\":\"%s\"}"), id);
	fake_client_says(&client, line, NULL);
	fake_client_says(&client, REQUEST("1", "tool.cancel", "{\"id\":8}"),
		ERROR("8", "-32603", NAMED("CANCELLED")) "\n" RESULT("1", "{\"cancelled\":true}"));
	fake_client_send(&client, CALL("echo hi", "{}") "\n");
	fake_service_run(*state);
	(void)fake_client_take(&client);
	/* The end of the command answers the one that still waits. */
	ask(&client, "tasks/cancel", id, "*\"status\":\"cancelled\"*");
	ask(&client, "tasks/result", id, "*\"code\":\"CANCELLED\"*\"isError\":true*");
	fake_client_close(&client);
}

static void test_cancelling(void **state)
{
	struct fake_client client = connect(*state);
	char id[ID_DIGITS + 1];

	/* It is cancelled at once, although its command takes a while to end. */
	begin(&client, CALL("stubborn", "{}"), id, CREATED("600000"));
	ask(&client, "tasks/cancel", id, RESULT("1", "{" TASK("cancelled", "600000") "}"));
	ask(&client, "tasks/cancel", id, WRONG("Cannot cancel the task: its status is cancelled*"));
	ask(&client, "tasks/result", id, NULL);
	fake_service_pass(*state, LIMIT_TERM_GRACE_MS);
	fake_service_match(*state, fake_client_take(&client),
		"{*\"id\":1,*\"code\":\"CANCELLED\"*\"isError\":true}}");
	ask(&client, "tasks/get", id, RESULT("1", "{" TASK("cancelled", "600000") "}"));
	begin(&client, CALL("echo hi", "{}"), id,
		CREATED("600000") "\n" TOLD("completed", "600000"));
	ask(&client, "tasks/cancel", id, WRONG("Cannot cancel the task: its status is completed*"));
	fake_client_close(&client);
}

/* A tool that fails is a task that failed, with the result that the call would have had. */
static void test_failing(void **state)
{
	struct fake_client client = connect(*state);
	char id[ID_DIGITS + 1];

	begin(&client, CALL("cannot 2", "{}"), id,
		CREATED("600000") "\n" NOTIFICATION("notifications/tasks/status",
			"{\"taskId\":\"*\",\"status\":\"failed\",\"statusMessage\":\"*: *\",*}"));
	ask(&client, "tasks/result", id,
		"*\"structuredContent\":{\"success\":false,*\"isError\":true}}");
	/* One that never began is the same. */
	begin(&client, CALL("", "{}"), id,
		CREATED("600000") "\n" TOLD(
			"failed\",\"statusMessage\":\"INVALID_ARGUMENTS: *", "600000"));
	ask(&client, "tasks/result", id, "*\"code\":\"INVALID_ARGUMENTS\"*\"isError\":true}}");
	/* A status that a command exits with is no failure. */
	begin(&client, CALL("fail 3", "{}"), id,
		CREATED("600000") "\n" TOLD("completed", "600000"));
	fake_client_close(&client);
}

static void test_mistakes(void **state)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "tasks/get", "{}"), WRONG("*taskId must be a string*")},
		{REQUEST("1", "tasks/get", "{\"taskId\":1}"), WRONG("*taskId must be a string*")},
		{REQUEST("1", "tasks/get", "{\"taskId\":\"\"}"), WRONG("Task not found*")},
		{REQUEST("1", "tasks/result", "{\"taskId\":\"x\"}"), WRONG("Task not found*")},
		{REQUEST("1", "tasks/cancel", "{\"taskId\":\"x\"}"), WRONG("Task not found*")},
		{REQUEST("1", "tasks/list", "{\"cursor\":1}"), WRONG("*cursor*")},
		{REQUEST("1", "tasks/list", "{\"cursor\":\"\"}"), WRONG("*cursor*")},
		{REQUEST("1", "tasks/list", "{\"cursor\":\"-1\"}"), WRONG("*cursor*")},
		{REQUEST("1", "tasks/list", "{\"cursor\":\"1x\"}"), WRONG("*cursor*")},
		{REQUEST("1", "tasks/list", "{\"cursor\":\"99999999999999999999\"}"),
			WRONG("*cursor*")},
		{REQUEST("1", "tasks/list", "{\"cursor\":\"9\"}"), WRONG("*cursor*")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo\"},\"task\":"
			 "1}"),
			WRONG("*task must be an object*")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo\"},\"task\":"
			 "null}"),
			WRONG("*task must be an object*")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo\"},"
			 "\"task\":{\"ttl\":-1}}"),
			WRONG("*ttl*")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo\"},"
			 "\"task\":{\"ttl\":\"1\"}}"),
			WRONG("*ttl*")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"read_file\",\"arguments\":{\"path\":\"f\"},\"task\":{}}"),
			ERROR("1", "-32601", "\"message\":\"Only run_command can be a task*\"")},
		{REQUEST("1", "tools/call", "{\"name\":\"fly\",\"task\":{}}"),
			WRONG("Unknown tool: fly")},
		{REQUEST("1", "tasks/list", "{}"), RESULT("1", "{\"tasks\":[]}")},
		/* Other revisions do not know it. */
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo a\"},"
			 "\"task\":{},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
			 "\"2025-06-18\"}}"),
			RESULT("1", "{\"content\":[*\"isError\":false}")},
		{NOTIFICATION("tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo\"},"
			 "\"task\":{}}"),
			NULL},
	};
	struct fake_client client = connect(*state);

	fake_client_talk(&client, exchanges, ARRAY_SIZE(exchanges));
	assert_int_equal(usage(state)->tasks, 0);
	fake_client_close(&client);
}

/* The time for which a task is kept counts from its beginning, but it can be fetched at its end. */
static void test_how_long_it_is_kept(void **state)
{
	struct fake_client client = connect(*state);
	char id[ID_DIGITS + 1], most[ID_DIGITS + 1];

	begin(&client,
		REQUEST("7", "tools/call",
			"{\"name\":\"run_command\",\"arguments\":{\"command\":\"say one\","
			"\"timeout_ms\":600000},\"task\":{\"ttl\":0}}"),
		id, CREATED("0"));
	fake_service_pass(*state, LIMIT_TASK_FETCH_MS + 1);
	ask(&client, "tasks/get", id, RESULT("1", "{" TASK("working", "0") "}"));
	ask(&client, "tasks/cancel", id, "*\"status\":\"cancelled\"*");
	(void)fake_client_take(&client);
	fake_service_pass(*state, LIMIT_TASK_FETCH_MS - 1);
	(void)fake_client_take(&client);
	ask(&client, "tasks/get", id, RESULT("1", "{" TASK("cancelled", "0") "}"));
	fake_service_pass(*state, 1);
	ask(&client, "tasks/get", id, WRONG("Task not found*"));
	begin(&client, CALL("echo hi", "{\"ttl\":null}"), most,
		CREATED("3600000") "\n" TOLD("completed", "3600000"));
	begin(&client, CALL("echo hi", "{\"ttl\":9223372036854775807}"), id,
		CREATED("3600000") "\n" TOLD("completed", "3600000"));
	fake_service_pass(*state, LIMIT_TASK_TTL_MS - 1);
	ask(&client, "tasks/get", most, RESULT("1", "{" TASK("completed", "3600000") "}"));
	fake_service_pass(*state, 1);
	ask(&client, "tasks/get", most, WRONG("Task not found*"));
	ask(&client, "tasks/get", id, WRONG("Task not found*"));
	assert_int_equal(usage(state)->tasks, 0);
	assert_int_equal(usage(state)->task_bytes, 0);
	fake_client_close(&client);
}

/* No other connection finds a task, and its end is the end of its tasks. */
static void test_a_task_is_its_connection_s(void **state)
{
	struct fake_client client = connect(*state), other = connect(*state);
	char id[ID_DIGITS + 1];

	begin(&client, CALL("say one", "{}"), id, CREATED("600000"));
	ask(&other, "tasks/get", id, WRONG("Task not found*"));
	ask(&other, "tasks/result", id, WRONG("Task not found*"));
	ask(&other, "tasks/cancel", id, WRONG("Task not found*"));
	fake_client_says(&other, REQUEST("1", "tasks/list", "{}"), RESULT("1", "{\"tasks\":[]}"));
	ask(&client, "tasks/result", id, NULL);
	assert_int_equal(usage(state)->tasks, 1);
	assert_int_equal(usage(state)->calls, 1);
	fake_client_close(&client);
	fake_service_pass(*state, LIMIT_TERM_GRACE_MS);
	assert_int_equal(usage(state)->tasks, 0);
	assert_int_equal(usage(state)->task_bytes, 0);
	assert_int_equal(usage(state)->calls, 0);
	fake_client_close(&other);
}

/* How many a connection and a tenant may have, and what makes room. */
static void test_how_many(void **state)
{
	struct fake_client clients[LIMIT_TASKS_TENANT / LIMIT_TASKS_PER_CONNECTION + 1];
	const char *busy = ERROR("7", "-32603",
		"\"message\":\"This connection or its tenant has as many tasks*\",\"data\":{"
		"\"code\":\"BUSY\",\"retry_after_ms\":*}");
	char first[ID_DIGITS + 1], id[ID_DIGITS + 1];
	struct fake_service *service = *state;

	for (size_t i = 0; i < ARRAY_SIZE(clients) - 1; i++) {
		clients[i] = connect(service);
		for (size_t j = 0; j < LIMIT_TASKS_PER_CONNECTION; j++)
			begin(&clients[i], CALL("echo hi", "{}"), j == 0 ? first : id,
				CREATED("600000") "\n" TOLD("completed", "600000"));
		fake_client_says(&clients[i], CALL("echo hi", "{}"), busy);
	}
	assert_int_equal(usage(state)->tasks, LIMIT_TASKS_TENANT);
	assert_int_equal(service->service.admission.refused[ADMISSION_TASKS],
		LIMIT_TASKS_TENANT / LIMIT_TASKS_PER_CONNECTION);
	clients[ARRAY_SIZE(clients) - 1] = connect(service);
	fake_client_says(&clients[ARRAY_SIZE(clients) - 1], CALL("echo hi", "{}"), busy);
	/* A result that was fetched makes room. */
	ask(&clients[3], "tasks/result", first, RESULT("1", OUTPUT("hi\\n")));
	begin(&clients[3], CALL("echo hi", "{}"), id,
		CREATED("600000") "\n" TOLD("completed", "600000"));
	ask(&clients[3], "tasks/get", first, WRONG("Task not found*"));
	fake_client_says(&clients[3], CALL("echo hi", "{}"), busy);
	/* A list comes in pages. */
	fake_client_says(&clients[0], REQUEST("1", "tasks/list", "{}"),
		RESULT("1", "{\"tasks\":[{*}],\"nextCursor\":\"32\"}"));
	fake_client_says(&clients[0], REQUEST("1", "tasks/list", "{\"cursor\":\"32\"}"),
		RESULT("1", "{\"tasks\":[{*}]}"));
	fake_client_says(&clients[0], REQUEST("1", "tasks/list", "{\"cursor\":\"64\"}"),
		RESULT("1", "{\"tasks\":[]}"));
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		fake_client_close(&clients[i]);
	fake_service_run(service);
	assert_int_equal(usage(state)->tasks, 0);
	assert_int_equal(usage(state)->task_bytes, 0);
}

/* Progress belongs to the task for as long as it runs. */
static void test_progress(void **state)
{
	struct fake_client client = connect(*state);
	char id[ID_DIGITS + 1];

	begin(&client,
		REQUEST("7", "tools/call",
			"{\"name\":\"run_command\",\"arguments\":{\"command\":\"say one\"},"
			"\"task\":{},\"_meta\":{\"progressToken\":\"t\"}}"),
		id, CREATED("600000"));
	fake_service_pass(*state, 2);
	fake_service_pass(*state, PROGRESS_OUTPUT_MS);
	fake_service_match(*state, fake_client_take(&client),
		"*{\"progressToken\":\"t\",\"progress\":*,\"message\":\"one\",\"_meta\":{"
		"\"io.modelcontextprotocol/related-task\":{\"taskId\":\"*\"}}}}");
	ask(&client, "tasks/cancel", id, "*");
	fake_service_pass(*state, 3000);
	assert_null(strstr(fake_client_take(&client), "progress"));
	fake_client_close(&client);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_from_its_call_to_its_result, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_waiting_for_the_result, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_cancelling, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_failing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_mistakes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_how_long_it_is_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_task_is_its_connection_s, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_how_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_progress, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
