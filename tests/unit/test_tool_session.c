/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* read_output, send_input, stop_command and list_commands, from a client's line to its answer: what
 * a program is told, and the text for a model. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/session/session_use.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#define ALICE   1001
#define BOB     1002
#define WAIT_MS 9000

static int set_up(void **state)
{
	*state = fake_service_new("[tenant one]\n"
				  "users = 1001\n"
				  "managed = yes\n"
				  "tools = basic sessions\n"
				  "sessions_per_workspace = 16\n"
				  "[tenant two]\n"
				  "users = 1002\n"
				  "managed = yes\n");
	return 0;
}

static int tear_down(void **state)
{
	fake_service_forget(*state);
	assert_int_equal(session_count(NULL), 0);
	fake_service_free(*state);
	return 0;
}

FIXTURE(set_up, tear_down)

/* clang-format off */
#define USE_WITH(id, tool, arguments, options) \
	REQUEST(id, "tool.call", "{\"tool\":\"" tool "\",\"arguments\":" arguments "," \
		"\"options\":{" options "}}")
#define USE(tool, arguments)       USE_WITH("1", tool, arguments, "")
#define SHOW(tool, arguments)      USE_WITH("1", tool, arguments, "\"reply\":\"message\"")
#define KEYED(key, tool, arguments) USE_WITH("1", tool, arguments, "\"key\":\"" key "\"")
#define READ(rest)                 USE("read_output", "{\"name\":\"s\"" rest "}")
#define NOW                        ",\"wait_ms\":0"
#define SEND(rest)                 USE("send_input", "{\"name\":\"s\"," rest "}")
#define STOP                       USE("stop_command", "{\"name\":\"s\"}")
#define LIST                       USE("list_commands", "{}")
#define DID(tool, output) \
	RESULT("1", "{\"success\":true,\"tool\":\"" tool "\",\"output\":{" output "},*}")
#define SHOWN(text)                RESULT("1", "{*\"content\":\"" text "\"*}")
#define REFUSED(code, words) \
	RESULT("1", "{\"success\":false,*\"code\":\"" code "\",\"message\":\"" words "\"*}")
/* clang-format on */

/* Starts a command called @name, and lets its output be read. */
static void start(struct fake_client *client, const char *name, const char *command)
{
	char line[512];

	snprintf(line, sizeof(line),
		REQUEST("0", "session.start",
			"{\"command\":\"%s\",\"name\":\"%s\",\"stdin\":true}"),
		command, name);
	fake_client_says(client, line, RESULT("0", "{*}"));
	fake_service_pass(client->service, 3);
}

TEST(test_a_life)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client, LIST, DID("list_commands", "\"commands\":[],\"count\":0"));
	start(&client, "s", "cat");
	fake_client_says(&client, READ(NOW),
		DID("read_output", "\"name\":\"s\",\"session\":\"*\",\"state\":\"running\","
				   "\"age_ms\":3,\"lost_bytes\":0,\"output\":\"\","
				   "\"truncated\":false,\"output_bytes\":0,\"next\":0"));
	fake_client_says(&client, SEND("\"input\":\"one\""), NULL);
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS + 1);
	fake_client_hears(&client, DID("send_input", "*\"taken\":4,\"input_closed\":false,*"
						     "\"output\":\"one\\n\",*\"next\":4"));
	/* What was shown once is not new. */
	fake_client_says(&client, READ(NOW), DID("read_output", "*\"output\":\"\",*\"next\":4"));
	fake_client_says(
		&client, READ(",\"after\":1" NOW), DID("read_output", "*\"output\":\"ne\\n\",*"));
	fake_client_says(&client, READ(",\"after\":5"),
		REFUSED("INVALID_ARGUMENTS", "*which has 4 bytes; leave it out for what is new"));
	fake_client_says(&client, LIST,
		DID("list_commands", "\"commands\":[{\"name\":\"s\",*\"state\":\"running\",*"
				     "\"command\":\"cat\",\"unread_bytes\":0}],\"count\":1"));
	fake_client_says(&client, STOP,
		DID("stop_command", "*\"state\":\"ended\",*\"output\":\"\",*"
				    "\"end\":{*\"ended_by\":\"cancel\"*\"code\":\"CANCELLED\"*}"));
	fake_client_says(&client, SEND("\"input\":\"late\""),
		DID("send_input", "*\"state\":\"ended\",*\"taken\":0,*\"end\":{*}"));
	fake_client_close(&client);
}

/* Each command writes @text, which is read at once. */
static void writes(struct fake_service *fake, const char *text)
{
	fake_workers_write(text);
	fake_service_pass(fake, 0);
}

TEST(test_waiting)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	start(&client, "s", "hang");
	fake_client_says(&client, READ(",\"wait_for\":\"ready\",\"wait_ms\":9000"), NULL);
	fake_workers_write("rea");
	fake_service_pass(*state, 5 * LIMIT_TOOL_SETTLE_MS);
	fake_client_hears(&client, "");
	fake_workers_write("dy");
	fake_client_hears(&client, DID("read_output", "*\"found\":true,*\"output\":\"ready\",*"));
	fake_client_says(&client, READ(",\"wait_for\":\"ready\",\"wait_ms\":9000"), NULL);
	fake_service_pass(*state, WAIT_MS + 1);
	fake_client_hears(&client, DID("read_output", "*\"found\":false,*\"output\":\"\",*"));
	/* Without a text, output is shown when the command is silent again. */
	fake_client_says(&client, READ(",\"wait_ms\":9000"), NULL);
	fake_service_pass(*state, 5 * LIMIT_TOOL_SETTLE_MS);
	fake_client_hears(&client, "");
	writes(*state, "a");
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS - 1);
	writes(*state, "b");
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS - 1);
	fake_client_hears(&client, "");
	fake_service_pass(*state, 1);
	fake_client_hears(&client, DID("read_output", "*\"output\":\"ab\",*"));
	/* One that waits can be cancelled, and its id is not used twice. */
	fake_client_says(&client, READ(",\"wait_ms\":9000"), NULL);
	fake_client_says(&client, LIST, ERROR("1", "-32600", "*"));
	fake_client_says(&client, REQUEST("2", "tool.cancel", "{\"id\":1}"),
		REFUSED("CANCELLED", "*") "\n" RESULT("2", "{\"cancelled\":true}"));
	fake_client_says(&client, REQUEST("2", "tool.cancel", "{\"id\":1}"),
		RESULT("2", "{\"cancelled\":false}"));
	/* A client that leaves while it waits. */
	other = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	fake_client_says(&other, READ(",\"wait_ms\":9000"), NULL);
	fake_client_close(&other);
	/* The end of the command is the end of the wait. */
	fake_client_says(&client, READ(",\"wait_ms\":9000"), NULL);
	fake_client_says(&client, USE_WITH("2", "stop_command", "{\"name\":\"s\"}", ""),
		RESULT("2", "{*\"state\":\"ended\"*}") "\n" RESULT("1", "{*\"state\":\"ended\"*}"));
	fake_client_close(&client);
}

/* What acts is done even so, and is answered without waiting. */
TEST(test_too_many_wait)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	char line[256];

	start(&client, "s", "stubborn");
	for (int i = 0; i < LIMIT_SESSION_WAITERS; i++) {
		snprintf(line, sizeof(line),
			USE_WITH("%d", "read_output", "{\"name\":\"s\",\"wait_ms\":9000}", ""),
			100 + i);
		fake_client_says(&client, line, NULL);
	}
	fake_client_says(
		&client, READ(",\"wait_ms\":9000"), REFUSED("BUSY", "Too many requests wait*"));
	fake_client_says(&client, SEND("\"input\":\"x\""),
		DID("send_input", "*\"state\":\"running\",*\"taken\":2,*"));
	fake_client_says(&client, STOP, DID("stop_command", "*\"state\":\"ending\",*"));
	fake_client_close(&client);
}

TEST(test_the_text_for_a_model)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client, SHOW("list_commands", "{}"),
		SHOWN("no command is in the background; run_command with background=true starts "
		      "one\\n"));
	start(&client, "s", "cat");
	fake_client_says(
		&client, SHOW("list_commands", "{}"), SHOWN("s: running for 0.0 s: cat\\n"));
	fake_client_says(&client, SHOW("read_output", "{\"name\":\"s\",\"wait_ms\":0}"),
		SHOWN("s: running for 0.0 s, no new output\\n"));
	fake_client_says(&client,
		SHOW("read_output", "{\"name\":\"s\",\"wait_for\":\"x\",\"wait_ms\":0}"),
		SHOWN("s: running for 0.0 s, and the text was not in the new output, no new "
		      "output\\n"));
	fake_client_says(&client, SHOW("send_input", "{\"name\":\"s\",\"input\":\"one\"}"), NULL);
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS + 1);
	fake_client_hears(&client, SHOWN("s: running for 0.2 s; 4 bytes written\\none\\n"));
	fake_client_says(&client,
		SHOW("send_input",
			"{\"name\":\"s\",\"input\":\"x\",\"newline\":false,\"eof\":true}"),
		SHOWN("s: exit 0*; 1 byte written\\nx"));
	fake_client_says(&client, SHOW("send_input", "{\"name\":\"s\",\"input\":\"x\"}"),
		SHOWN("s: exit 0*; nothing was written, because it has ended, no new output\\n"));
	start(&client, "t", "hang");
	fake_client_says(&client, SHOW("stop_command", "{\"name\":\"t\"}"),
		SHOWN("t: stopped, no new output\\n"));
	fake_client_close(&client);
}

/* What a command is sent for what a model types. It copies that. */
TEST(test_the_newline)
{
	static const struct {
		const char *arguments, *got;
	} table[] = {
		{"\"input\":\"a\"", "a\\n"},
		{"\"input\":\"\"", "\\n"},
		{"\"input\":\"a\\n\"", "a\\n"},
		{"\"input\":\"a\",\"newline\":false", "a"},
		{"\"input\":\"a\\nb\"", "a\\nb\\n"},
		{"\"input\":\"x\\u0003\"", "x\\u0003"},
		{"\"input\":\"a\\u007f\"", "a\x7f"},
		{"\"input\":\"a\\tb\"", "a\\tb\\n"},
		{"\"input\":\"nul\\u0000\"", "nul\\u0000"},
		{"\"input\":\"\u00e9\"", "\u00e9\\n"},
		{"\"input\":\"\",\"eof\":true", ""},
	};
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	char line[256], answer[256];

	start(&client, "s", "cat");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		snprintf(line, sizeof(line), SEND("%s"), table[i].arguments);
		snprintf(answer, sizeof(answer), DID("send_input", "*\"output\":\"%s\",*"),
			table[i].got);
		fake_client_send(&client, line);
		fake_client_send(&client, "\n");
		fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS + 1);
		fake_client_hears(&client, answer);
	}
	fake_client_says(&client, LIST, RESULT("1", "{*\"state\":\"ended\"*}"));
	/* Bytes are sent as they are. */
	start(&client, "t", "cat");
	fake_client_says(&client,
		USE_WITH("1", "send_input", "{\"name\":\"t\",\"input\":\"/gA=\"}",
			"\"encoding\":\"base64\""),
		NULL);
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS + 1);
	fake_client_hears(
		&client, DID("send_input", "*\"taken\":2,*\"output\":\"/gA=\",\"truncated\":false,"
					   "\"encoding\":\"base64\",*"));
	fake_client_close(&client);
}

/* Keys of a terminal: a newline is one byte, and Ctrl-D is how input ends. */
TEST(test_a_terminal)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	fake_client_says(&client,
		REQUEST("1", "session.start",
			"{\"command\":\"hang\",\"name\":\"s\",\"pty\":{\"rows\":24,\"cols\":80}}"),
		RESULT("1", "{*}"));
	fake_service_pass(*state, 3);
	fake_client_says(&client, SEND("\"input\":\"ab\",\"eof\":true"), NULL);
	fake_service_pass(*state, LIMIT_TOOL_LOOK_MS + 1);
	fake_client_hears(&client, DID("send_input", "*\"taken\":4,\"input_closed\":false,*"));
	fake_client_close(&client);
}

TEST(test_input_that_is_not_taken)
{
	static char part[200 << 10], line[sizeof(part) + 256];
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	size_t sent = 0;
	int n;

	memset(part, 'x', sizeof(part) - 1);
	snprintf(line, sizeof(line), SHOW("send_input", "{\"name\":\"s\",\"input\":\"%s\"}") "\n",
		part);
	start(&client, "s", "hang");
	for (n = 0; n < 20; n++) {
		const char *answer, *bytes;
		size_t taken = 0;

		fake_client_send(&client, line);
		fake_service_pass(*state, LIMIT_TOOL_LOOK_MS + 1);
		answer = fake_client_take(&client);
		bytes = strstr(answer, " s; ");
		if (!bytes)
			break;
		assert_int_equal(sscanf(bytes, " s; %zu bytes written", &taken), 1);
		sent += taken;
		if (taken < sizeof(part))
			assert_non_null(strstr(answer, " not: send them when it has read these"));
	}
	assert_int_equal(n, 6);
	assert_int_equal(sent, 1 << 20);
	fake_client_says(&client, SEND("\"input\":\"x\""),
		REFUSED("BUSY",
			"*has not read what it was sent before*nothing of this was taken*"));
	/* Its input can be closed by it, too. */
	start(&client, "t", "hang");
	fake_client_says(&client,
		USE("send_input", "{\"name\":\"t\",\"input\":\"\",\"newline\":false,\"eof\":true}"),
		NULL);
	fake_service_pass(*state, LIMIT_TOOL_LOOK_MS + 1);
	fake_client_hears(&client, DID("send_input", "*\"taken\":0,\"input_closed\":true,*"));
	fake_client_says(&client, SHOW("send_input", "{\"name\":\"t\",\"input\":\"x\"}"),
		SHOWN("t: running for 1.0 s; nothing was written, because its input is closed, no "
		      "new output\\n"));
	fake_client_close(&client);
}

TEST(test_a_repeated_call)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	char line[256];

	start(&client, "s", "cat");
#define ONCE KEYED("a", "send_input", "{\"name\":\"s\",\"input\":\"once\"}")
	fake_client_says(&client, ONCE, NULL);
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS + 1);
	fake_client_hears(&client, DID("send_input", "*\"taken\":5,*\"output\":\"once\\n\",*"));
	/* It is not typed again, and shows what it has shown. */
	fake_client_says(&client, ONCE, NULL);
	fake_service_pass(*state, LIMIT_TOOL_LOOK_MS + 1);
	fake_client_hears(&client, RESULT("1", "{*\"taken\":5,*\"output\":\"once\\n\",*\"next\":5}*"
					       "\"replayed\":true*}"));
	fake_client_says(&client, KEYED("a", "send_input", "{\"name\":\"s\",\"input\":\"other\"}"),
		REFUSED("KEY_CONFLICT", "*"));
	/* What began nothing leaves its key free. */
	fake_client_says(&client, KEYED("b", "read_output", "{\"name\":\"s\",\"after\":6}"),
		REFUSED("INVALID_ARGUMENTS", "*"));
	fake_client_says(&client,
		KEYED("b", "read_output", "{\"name\":\"s\",\"after\":5,\"wait_ms\":0}"),
		DID("read_output", "*\"next\":5"));
	/* The last ones are known. */
	for (int i = 0; i < LIMIT_TOOL_KEYS; i++) {
		snprintf(line, sizeof(line),
			KEYED("k%d", "read_output", "{\"name\":\"s\",\"after\":5,\"wait_ms\":0}"),
			i);
		fake_client_says(&client, line, DID("read_output", "*\"next\":5"));
	}
	fake_client_says(&client,
		KEYED("k0", "read_output", "{\"name\":\"s\",\"after\":5,\"wait_ms\":0}"),
		RESULT("1", "{*\"replayed\":true*}"));
	fake_client_says(&client, ONCE, NULL);
	fake_service_pass(*state, LIMIT_TOOL_SETTLE_MS + 1);
	fake_client_hears(&client, DID("send_input", "*\"output\":\"once\\n\",*\"next\":10"));
	fake_client_close(&client);
}

/* Output that is not kept is counted, and how to see what is not shown is said. */
TEST(test_output_that_is_cut)
{
	enum { LINES = 1000, LINE = 16 };
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	char line[LINE + 1];

	fake_client_says(&client,
		REQUEST("1", "session.start",
			"{\"command\":\"hang\",\"name\":\"s\",\"output_bytes\":8192}"),
		RESULT("1", "{*}"));
	fake_service_pass(*state, 3);
	for (int i = 0; i < LINES; i++) {
		snprintf(line, sizeof(line), "%015d\n", i);
		fake_workers_write(line);
	}
	fake_service_run(*state);
	fake_client_says(&client, READ(",\"after\":0" NOW),
		DID("read_output", "*\"lost_bytes\":7808,\"output\":\"000000000000488\\n*"
				   "000000000000999\\n\",\"truncated\":false,"
				   "\"output_bytes\":8192,\"next\":16000"));
	fake_client_says(&client,
		USE_WITH("1", "read_output", "{\"name\":\"s\",\"after\":9000,\"wait_ms\":0}",
			"\"max_output\":100,\"reply\":\"message\""),
		SHOWN("s: running for 0.0 s\\n0000562\\n000000000000563\\n000000000000564\\n"
		      "[… 432 lines, 6,912 bytes left out; read_output with after, from 9000 to "
		      "16000, shows it from there on]\\n000000000000997\\n000000000000998\\n"
		      "000000000000999\\n"));
	fake_client_says(&client, SHOW("read_output", "{\"name\":\"s\",\"after\":8,\"wait_ms\":0}"),
		SHOWN("s: running for 0.0 s\\n[7800 bytes before this were not kept]\\n*"));
	fake_client_close(&client);
}

#define X64       "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define RUN(rest) USE("run_command", "{\"command\":\"hang\"" rest "}")

TEST(test_mistakes)
{
	static const struct {
		const char *line, *code, *words;
	} table[] = {
		{USE("read_output", "{\"name\":\"nope\"}"), "SESSION_NOT_FOUND",
			"No command \\\"nope\\\" is in the background of this workspace, or it "
			"ended long ago. These run: \\\"s\\\" (hang)"},
		{USE("send_input", "{\"name\":\"S\",\"input\":\"x\"}"), "SESSION_NOT_FOUND",
			"*These run: \\\"s\\\" (hang)"},
		{USE("stop_command", "{\"name\":\"hang\"}"), "SESSION_NOT_FOUND",
			"*These run: \\\"s\\\" (hang)"},
		{USE("stop_command", "{}"), "INVALID_ARGUMENTS",
			"stop_command: argument \\\"name\\\" is required*\"notes\":[*These run: "
			"\\\"s\\\" (hang)\"]*"},
		{USE("read_output", "{\"name\":\"\"}"), "INVALID_ARGUMENTS", "*must not be empty*"},
		{USE("stop_command", "{\"name\":\"x" X64 "\"}"), "INVALID_ARGUMENTS",
			"*at most 64 bytes*"},
		{USE("stop_command", "{\"pid\":4}"), "INVALID_ARGUMENTS",
			"*did you mean \\\"name\\\"?*"},
		{USE("send_input", "{\"name\":\"s\"}"), "INVALID_ARGUMENTS",
			"*\\\"input\\\" is required*"},
		{READ(",\"wait_for\":\"x" X64 X64 X64 X64 "\""), "INVALID_ARGUMENTS",
			"*at most 256 bytes*"},
		{READ(",\"timeout\":5"), "INVALID_ARGUMENTS", "*did you mean \\\"wait_ms\\\"?*"},
		{RUN(",\"background\":\"yes\""), "INVALID_ARGUMENTS",
			"*\\\"background\\\" must be true or false*"},
		{RUN(",\"bg\":true"), "INVALID_ARGUMENTS", "*did you mean \\\"background\\\"?*"},
		{RUN(",\"background\":true,\"name\":\"s\""), "INVALID_ARGUMENTS", "*runs already*"},
		{USE("run_command", "{\"command\":\"rm -rf /\",\"background\":true}"),
			"COMMAND_BLOCKED", "*was not run*"},
		{USE("read_output", "{\"name\":1}"), "INVALID_ARGUMENTS", "*must be a string*"},
		{SEND("\"input\":[]"), "INVALID_ARGUMENTS", "*must be a string*"},
		{READ(",\"wait_for\":\"\""), "INVALID_ARGUMENTS", "*must not be empty*"},
		{READ(",\"wait_ms\":true"), "INVALID_ARGUMENTS", "*\\\"wait_ms\\\"*"},
		{READ(",\"after\":-1"), "INVALID_ARGUMENTS", "*\\\"after\\\"*"},
		{USE("list_commands", "{\"name\":\"s\"}"), "INVALID_ARGUMENTS",
			"*takes no arguments*"},
	};
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;
	char answer[512];

	fake_client_says(&client, STOP, REFUSED("SESSION_NOT_FOUND", "*None runs*"));
	start(&client, "s", "hang");
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		snprintf(
			answer, sizeof(answer), REFUSED("%s", "%s"), table[i].code, table[i].words);
		fake_client_says(&client, table[i].line, answer);
	}
	/* Another tenant, and another workspace, learn nothing. */
	other = fake_client_open(*state, &agent_endpoint, BOB, "w");
	fake_client_says(&other, STOP, REFUSED("SESSION_NOT_FOUND", "*None runs*"));
	fake_client_says(&other, LIST, DID("list_commands", "\"commands\":[],\"count\":0"));
	fake_client_close(&other);
	other = fake_client_open(*state, &agent_endpoint, ALICE, "v");
	fake_client_says(&other, STOP, REFUSED("SESSION_NOT_FOUND", "*None runs*"));
	fake_client_close(&other);
	/* Nobody is answered, and it is done. */
	fake_client_says(&client,
		NOTIFICATION(
			"tool.call", "{\"tool\":\"stop_command\",\"arguments\":{\"name\":\"s\"}}"),
		NULL);
	fake_client_says(&client, READ(NOW), DID("read_output", "*\"state\":\"ended\",*"));
	fake_client_close(&client);
}

TEST(test_many_names)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	char name[8];

	for (int i = 0; i < LIMIT_TOOL_LIST_NAMES + 2; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		start(&client, name, "hang on\\nsecond line");
	}
	fake_client_says(&client, STOP,
		REFUSED("SESSION_NOT_FOUND", "*These run: \\\"n0\\\" (hang on), \\\"n1\\\" (hang "
					     "on), *\\\"n7\\\" (hang on) and "
					     "2 more, which list_commands shows"));
	fake_client_says(&client, LIST, DID("list_commands", "*\"count\":10"));
	fake_client_close(&client);
}
