/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* The Model Context Protocol on the agent socket: each revision, from a client's line to its
 * answer. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/agent/mcp/mcp_progress.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

FIXTURE(fake_service_set_up, fake_service_tear_down)

/* clang-format off */
#define LATEST_META \
	"\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}"
#define LATEST(method, rest)  REQUEST("1", method, "{\"_meta\":{" LATEST_META "}" rest "}")
#define VERSION(method, meta) REQUEST("1", method, "{\"_meta\":" meta "}")
#define INITIALIZE(version) \
	REQUEST("1", "initialize", "{\"protocolVersion\":\"" version "\",\"capabilities\":{}," \
		"\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}}")
#define AGREED(version) \
	RESULT("1", "{\"protocolVersion\":\"" version "\",\"capabilities\":{\"tools\":{}}," \
		"\"serverInfo\":{\"name\":\"cloister\",*},\"instructions\":\"*\"}")
#define OF_LATEST "\"resultType\":\"complete\",\"_meta\":{" \
	"\"io.modelcontextprotocol/serverInfo\":{\"name\":\"cloister\",\"title\":\"cloister\"," \
	"\"version\":\"*\"}},"
#define WRONG(message)  ERROR("1", "-32602", "\"message\":\"" message "\"")
#define NO_METHOD       ERROR("1", "-32601", "*")
#define OPEN   REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}")
#define OPENED RESULT("0", "{*}")
#define CALL(name, arguments) \
	REQUEST("1", "tools/call", "{\"name\":\"" name "\",\"arguments\":" arguments "}")
/* clang-format on */

static void talk(void **state, const struct fake_exchange *exchanges, size_t n)
{
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1000, 1000);

	fake_client_talk(&client, exchanges, n);
	fake_client_close(&client);
}

TEST(test_agreeing_on_a_revision)
{
	static const struct fake_exchange exchanges[] = {
		{INITIALIZE("2025-06-18"), AGREED("2025-06-18")},
		{INITIALIZE("2025-11-25"), AGREED("2025-11-25")},
		{INITIALIZE("2024-11-05"), AGREED("2025-11-25")},
		{INITIALIZE("2026-07-28"), AGREED("2025-11-25")},
		{REQUEST("1", "initialize", "{}"), WRONG("Invalid params: initialize needs*")},
		{REQUEST("1", "initialize",
			 "{\"protocolVersion\":1,\"capabilities\":{},"
			 "\"clientInfo\":{}}"),
			WRONG("Invalid params: initialize needs*")},
		{REQUEST("1", "initialize",
			 "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":[],"
			 "\"clientInfo\":{}}"),
			WRONG("Invalid params: initialize needs*")},
		{LATEST("initialize", ""), NO_METHOD},
		{NOTIFICATION("initialize", "{}"), NULL},
		{NOTIFICATION("notifications/initialized", "{}"), NULL},
		{REQUEST("1", "notifications/initialized", "{}"), NO_METHOD},
		{REQUEST("1", "ping", "{}"), RESULT("1", "{}")},
		{LATEST("ping", ""), NO_METHOD},
		{NOTIFICATION("ping", "{}"), NULL},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

/* Requests with and without the revision in _meta. */
TEST(test_a_request_of_each_revision)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "tools/list", "{}"),
			WRONG("*are required unless initialize was sent before")},
		{VERSION("tools/list", "1"), WRONG("Invalid params: _meta must be an object")},
		{VERSION("tools/list", "{\"io.modelcontextprotocol/protocolVersion\":1}"),
			WRONG("*must be a string")},
		{VERSION("tools/list", "{\"io.modelcontextprotocol/protocolVersion\":\"1999\"}"),
			ERROR("1", "-32022",
				"\"message\":\"Unsupported protocol "
				"version\",\"data\":{\"supported\":"
				"[\"2026-07-28\",\"2025-11-25\",\"2025-06-18\"],\"requested\":"
				"\"1999\"}")},
		{VERSION("tools/list",
			 "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"),
			WRONG("*clientCapabilities*must be an object")},
		{LATEST("tools/list", ""),
			RESULT("1", "{" OF_LATEST "\"tools\":[*],\"ttlMs\":3600000,"
				    "\"cacheScope\":\"public\"}")},
		{VERSION("tools/list",
			 "{\"io.modelcontextprotocol/protocolVersion\":\"2025-11-25\"}"),
			RESULT("1", "{\"tools\":[*]}")},
		{LATEST("tools/list", ",\"cursor\":\"2\""), WRONG("*one answer lists all tools*")},
		{LATEST("server/discover", ""),
			RESULT("1", "{" OF_LATEST "\"supportedVersions\":[\"2026-07-28\","
				    "\"2025-11-25\",\"2025-06-18\"],\"capabilities\":{\"tools\":{},"
				    "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},"
				    "\"instructions\":\"*\",\"ttlMs\":3600000,\"cacheScope\":"
				    "\"public\"}")},
		{INITIALIZE("2025-11-25"), AGREED("2025-11-25")},
		{REQUEST("1", "tools/list", "{}"), RESULT("1", "{\"tools\":[*]}")},
		{REQUEST("1", "tasks/get", "{}"), NO_METHOD},
		{VERSION("tasks/cancel",
			 "{\"io.modelcontextprotocol/protocolVersion\":\"2025-06-18\"}"),
			NO_METHOD},
		{NOTIFICATION("tasks/get", "{}"), NULL},
		{REQUEST("1", "tasks/list", "{}"), NO_METHOD},
		{REQUEST("1", "server/discover", "{}"), NO_METHOD},
		{NOTIFICATION("tools/list", "{}"), NULL},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_calling_a_tool)
{
	static const struct fake_exchange exchanges[] = {
		{INITIALIZE("2025-11-25"), AGREED("2025-11-25")},
		{CALL("read_file", "{\"path\":\"f\"}"),
			RESULT("1", "{\"content\":[{\"type\":\"text\",\"text\":"
				    "\"WORKSPACE_NOT_FOUND: No workspace is "
				    "open*\"}],\"structuredContent\":{\"success\":false,*"
				    "\"code\":\"WORKSPACE_NOT_FOUND\"*},\"isError\":true}")},
		{OPEN, OPENED},
		{CALL("read_file", "{\"path\":\"f\"}"),
			RESULT("1", "{\"content\":[{\"type\":\"text\",\"text\":\"f (2 lines)\\n"
				    "one\\ntwo\\n[here: no network; *]\"}],\"structuredContent\":{"
				    "\"success\":true,*\"one\\ntwo\\n\",*},\"isError\":false}")},
		{CALL("run_command", "{\"command\":\"echo hi\"}"),
			RESULT("1", "{\"content\":[{\"type\":\"text\",\"text\":\"exit 0\\nhi\\n"
				    "\"}],\"structuredContent\":{*"
				    "\"stdout\":\"hi\\n\",*},\"isError\":false}")},
		/* A task of 2025-11-25 is a call. */
		{REQUEST("1", "tools/call",
			 "{\"name\":\"run_command\",\"arguments\":{\"command\":\"echo hi\"},"
			 "\"task\":{\"ttl\":1}}"),
			RESULT("1", "{\"content\":[{*\"stdout\":\"hi\\n\",*},\"isError\":false}")},
		{CALL("read_file", "{\"path\":\"../x\"}"),
			RESULT("1", "{*\"code\":\"PATH_OUTSIDE_WORKSPACE\",*\"isError\":true}")},
		{REQUEST("1", "tools/call", "{}"), WRONG("*name must be a string*")},
		{REQUEST("1", "tools/call", "{\"name\":1}"), WRONG("*name must be a string*")},
		{CALL("read_file", "[]"), WRONG("*arguments must be an object")},
		{CALL("fly", "{}"), WRONG("Unknown tool: fly; use *")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"read_file\",\"_meta\":{\"progressToken\":{}}}"),
			WRONG("*progressToken*")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"read_file\",\"arguments\":{\"path\":\"f\"},\"_meta\":{"
			 "\"cloister/workspace\":\"no\"}}"),
			RESULT("1", "{*\"code\":\"WORKSPACE_NOT_FOUND\"*\"isError\":true}")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"read_file\",\"arguments\":{\"path\":\"f\"},\"_meta\":{"
			 "\"cloister/workspace\":\"@/root\",\"cloister/options\":{"
			 "\"encoding\":\"base64\"}}}"),
			RESULT("1", "{*\"content\":\"b25lCnR3bwo=\"*\"isError\":false}")},
		{REQUEST("1", "tools/call",
			 "{\"name\":\"read_file\",\"arguments\":{\"path\":\"f\"},"
			 "\"_meta\":{" LATEST_META "}}"),
			RESULT("1", "{" OF_LATEST "\"content\":[*],\"structuredContent\":{*},"
				    "\"isError\":false}")},
		{NOTIFICATION("tools/call", "{\"name\":\"read_file\"}"), NULL},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

/* A cancelled call is not answered; only MCP's calls can be cancelled by MCP. */
TEST(test_cancelling)
{
	static const struct fake_exchange exchanges[] = {
		{OPEN, OPENED},
		{INITIALIZE("2025-11-25"), AGREED("2025-11-25")},
		{CALL("run_command", "{\"command\":\"hang\"}"), NULL},
		{REQUEST("2", "notifications/cancelled", "{\"requestId\":1}"),
			ERROR("2", "-32601", "*")},
		{NOTIFICATION("notifications/cancelled", "{\"requestId\":{}}"), NULL},
		{NOTIFICATION("notifications/cancelled", "{\"requestId\":1}"), NULL},
		/* The id is free again. */
		{CALL("run_command", "{\"command\":\"echo again\"}"), RESULT("1", "{*}")},
		{REQUEST("1", "tool.call",
			 "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}"),
			NULL},
		{NOTIFICATION("notifications/cancelled", "{\"requestId\":1}"), NULL},
		{CALL("run_command", "{\"command\":\"echo again\"}"),
			ERROR("1", "-32600", "\"message\":\"A call with this id*\"")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

#define PROGRESS(ms, message)                  \
	NOTIFICATION("notifications/progress", \
		"{\"progressToken\":\"t\",\"progress\":" ms ",\"message\":\"" message "\"}")

/* When a client that asked for progress is notified, and with which text. */
TEST(test_progress)
{
	static const struct fake_exchange begin[] = {
		{OPEN, OPENED},
		{INITIALIZE("2025-11-25"), AGREED("2025-11-25")},
	};
	static const struct {
		const char *command, *line; /* the last line, as the notification shows it */
	} rows[] = {
		{"say one", "one"},
		{"say one|two", "two"},
		{"say one|two|", "two"},
		{"say one|two|||", "two"},
		{"say ||", "running"},
		{"say \303\274ber", "\303\274ber"},
		{"hang", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fake_client client =
			fake_client_connect(*state, &agent_endpoint, 1000, 1000);
		char line[512], expected[512];
		struct fake_exchange call = {line, NULL};

		fake_client_talk(&client, begin, ARRAY_SIZE(begin));
		snprintf(line, sizeof(line),
			REQUEST("1", "tools/call",
				"{\"name\":\"run_command\",\"arguments\":{\"command\":\"%s\"},"
				"\"_meta\":{\"progressToken\":\"t\"}}"),
			rows[i].command);
		fake_client_talk(&client, &call, 1);
		/* The first notification comes after a pause. */
		fake_service_pass(*state, 2);
		assert_string_equal(fake_client_take(&client), "");
		fake_service_pass(*state, PROGRESS_OUTPUT_MS);
		if (rows[i].line) {
			snprintf(expected, sizeof(expected), PROGRESS("*", "%s"), rows[i].line);
			fake_service_match(*state, fake_client_take(&client), expected);
		} else {
			assert_string_equal(fake_client_take(&client), "");
		}
		/* The next output is reported after the same pause. */
		fake_workers_write("\nmore\n");
		fake_service_run(*state);
		fake_service_pass(*state, PROGRESS_OUTPUT_MS);
		fake_service_match(*state, fake_client_take(&client), PROGRESS("*", "more"));
		/* Without output there is a notification every second. */
		fake_service_pass(*state, PROGRESS_MS);
		fake_service_match(*state, fake_client_take(&client), PROGRESS("*", "*"));
		fake_service_pass(*state, PROGRESS_MS - 1);
		assert_string_equal(fake_client_take(&client), "");
		fake_service_pass(*state, 1);
		fake_service_match(*state, fake_client_take(&client), PROGRESS("*", "*"));
		/* A cancelled call has no more notifications. */
		fake_client_send(
			&client, NOTIFICATION("notifications/cancelled", "{\"requestId\":1}") "\n");
		fake_service_pass(*state, 3 * PROGRESS_MS);
		assert_string_equal(fake_client_take(&client), "");
		fake_client_close(&client);
	}
}

/* A connection that relays MCP has only MCP's methods; an unreadable id is none. */
TEST(test_a_connection_of_its_own)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("0", "workspace.open", "{\"root\":\"@/root\",\"protocol\":\"mcp\"}"),
			OPENED},
		{REQUEST("1", "tool.call", "{\"tool\":\"read_file\"}"), NO_METHOD},
		{REQUEST("1", "workspace.list", "{}"), NO_METHOD},
		{"not JSON", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32700,*}}"},
		{INITIALIZE("2025-11-25"), AGREED("2025-11-25")},
		{CALL("read_file", "{\"path\":\"f\"}"), RESULT("1", "{*\"isError\":false}")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}
