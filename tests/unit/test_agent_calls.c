/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* The agent socket's native methods, from a client's line to its answer. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

FIXTURE(fake_service_set_up, fake_service_tear_down)

#define OPEN   REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}")
#define OPENED RESULT("0", "{\"workspace\":\"@/root\",*}")
#define CALL(tool, arguments) \
	REQUEST("1", "tool.call", "{\"tool\":\"" tool "\",\"arguments\":" arguments "}")
#define CALL_WITH(tool, arguments, options) \
	REQUEST("1", "tool.call",           \
		"{\"tool\":\"" tool "\",\"arguments\":" arguments ",\"options\":" options "}")
#define DONE(tool, output)                                                                      \
	RESULT("1",                                                                             \
		"{\"success\":true,\"tool\":\"" tool "\",\"output\":" output ",\"error\":null," \
		"\"usage\":{\"wall_us\":*}}")
#define FAILED(tool, code) FAILED_WITH(tool, code, "")
#define FAILED_WITH(tool, code, notes)                               \
	RESULT("1", "{\"success\":false,\"tool\":\"" tool            \
		    "\",\"output\":null,\"error\":{\"code\":\"" code \
		    "\",\"message\":\"*\"*}," notes "\"usage\":{\"wall_us\":*}}")
#define ENDED(code, output)                                                          \
	RESULT("1", "{\"success\":false,\"tool\":\"run_command\",\"output\":" output \
		    ",\"error\":{\"code\":\"" code "\",\"message\":\"*\"},\"usage\":{*}}")

static void talk(void **state, const struct fake_exchange *exchanges, size_t n)
{
	static const struct fake_exchange open = {OPEN, OPENED};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1000, 1000);

	fake_client_talk(&client, &open, 1);
	fake_client_talk(&client, exchanges, n);
	fake_client_close(&client);
}

TEST(test_file_calls)
{
	static const struct fake_exchange exchanges[] = {
		{CALL("read_file", "{\"path\":\"f\"}"),
			DONE("read_file",
				"{\"path\":\"f\",\"content\":\"one\\ntwo\\n\",\"lines\":2,"
				"\"total_lines\":2,\"size\":8,\"truncated\":false,\"encoding\":"
				"\"utf-8\"}")},
		{CALL("read_file", "{\"path\":\"f\",\"start_line\":1,\"end_line\":2}"),
			DONE("read_file", "{\"path\":\"f\",\"content\":\"one\\ntwo\\n\",*}")},
		{CALL("read_file", "{\"path\":\"@/root/f\"}"), DONE("read_file", "{*}")},
		{CALL_WITH("read_file", "{\"path\":\"f\"}", "{\"encoding\":\"base64\"}"),
			DONE("read_file", "{\"path\":\"f\",\"content\":\"b25lCnR3bwo=\",*,"
					  "\"encoding\":\"base64\"}")},
		{CALL_WITH("read_file", "{}", "{\"path_base64\":\"//4=\"}"),
			DONE("read_file", "{\"path\":\"\357\277\275\357\277\275\",\"path_base64\":"
					  "\"//4=\",*}")},
		{CALL("read_file", "{\"path\":\"binary\"}"),
			DONE("read_file", "{\"path\":\"binary\",\"binary\":true,\"size\":68,"
					  "\"type\":\"image/png\"}")},
		{CALL("read_file", "{\"path\":\"missing\"}"), FAILED("read_file", "NOT_FOUND")},
		{CALL("write_file", "{\"path\":\"f\",\"content\":\"hello\"}"),
			DONE("write_file",
				"{\"path\":\"f\",\"bytes_written\":5,\"created\":true}")},
		{CALL("write_file", "{\"path\":\"f\",\"content\":\"\"}"),
			DONE("write_file",
				"{\"path\":\"f\",\"bytes_written\":0,\"created\":false}")},
		{CALL_WITH("write_file", "{\"path\":\"f\",\"content\":\"AAEC\"}",
			 "{\"encoding\":\"base64\",\"durability\":\"fast\"}"),
			DONE("write_file",
				"{\"path\":\"f\",\"bytes_written\":3,\"created\":true}")},
		{CALL("list_directory", "{\"path\":\".\"}"),
			DONE("list_directory", "{\"path\":\".\",\"entries\":["
					       "{\"path\":\"a\",\"type\":\"file\",\"size\":3,"
					       "\"mtime\":\"2023-11-14T22:13:20.123Z\"},"
					       "{\"path\":\"d\",\"type\":\"directory\",\"size\":0,"
					       "\"mtime\":\"2023-11-14T22:13:20.000Z\"},"
					       "{\"path\":\"l\\\\x\",\"path_base64\":\"bFx4\","
					       "\"type\":\"symlink\","
					       "\"size\":1,\"mtime\":\"1970-01-01T00:00:00.000Z\","
					       "\"target\":\"a\"}],"
					       "\"count\":3,\"truncated\":false}")},
		{CALL("list_directory", "{\"path\":\"d\",\"recursive\":true,\"pattern\":\"*.c\"}"),
			DONE("list_directory", "{\"path\":\"d\",*}")},
		{CALL("search_files", "{\"pattern\":\"a+\"}"),
			DONE("search_files",
				"{\"pattern\":\"a+\",\"matches\":[{\"path\":\"a\",\"line\":2,"
				"\"text\":\"the "
				"line\",\"cut\":true}],\"count\":1,\"truncated\":false,"
				"\"files_searched\":5,\"files_skipped\":1}")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_what_models_get_wrong)
{
	static const struct fake_exchange exchanges[] = {
		{CALL("read_file", "{\"path\":\"../x\"}"),
			FAILED_WITH("read_file", "PATH_OUTSIDE_WORKSPACE",
				"\"notes\":[\"The workspace's root is \\\"*\\\", and paths are "
				"relative to it; did you mean \\\"x\\\"?\"],")},
		{CALL("read_file", "{\"path\":\"/etc/passwd\"}"),
			FAILED_WITH("read_file", "PATH_OUTSIDE_WORKSPACE",
				"\"notes\":[\"The workspace's root is \\\"*\\\"; give a path "
				"relative to it\"],")},
		{CALL("read_file", "{}"), FAILED("read_file", "INVALID_ARGUMENTS")},
		{CALL("read_file", "{\"path\":1}"), FAILED("read_file", "INVALID_ARGUMENTS")},
		{CALL("fly", "{}"), FAILED("fly", "UNKNOWN_TOOL")},
		{CALL("run_command", "{\"command\":\"\"}"),
			FAILED("run_command", "INVALID_ARGUMENTS")},
		{CALL("run_command", "{\"command\":\"rm -rf /\"}"),
			FAILED("run_command", "COMMAND_BLOCKED")},
		{CALL_WITH("write_file", "{\"path\":\"f\",\"content\":\"?\"}",
			 "{\"encoding\":\"base64\"}"),
			FAILED("write_file", "INVALID_ARGUMENTS")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_what_programs_get_wrong)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "tool.call", "{\"tool\":\"read_file\",\"surprise\":1}"),
			ERROR("1", "-32602", "\"message\":\"*surprise*\"")},
		{REQUEST("1", "tool.call", "{}"), ERROR("1", "-32602", "*")},
		{REQUEST("1", "tool.call", "{\"tool\":\"read_file\",\"workspace\":1}"),
			ERROR("1", "-32602", "\"message\":\"workspace must be a string\"")},
		{REQUEST("1", "tool.call",
			 "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"},\"workspace\":"
			 "\"no\"}"),
			ERROR("1", "-32000", NAMED("WORKSPACE_NOT_FOUND"))},
		{CALL_WITH("read_file", "{\"path\":\"f\"}", "{\"path_base64\":\"?\"}"),
			ERROR("1", "-32602", "*base64*")},
		{CALL_WITH("read_file", "{\"path\":\"f\"}", "{\"flavour\":\"sweet\"}"),
			ERROR("1", "-32602", "*flavour*")},
		{REQUEST("1", "tool.calls", "{}"), ERROR("1", "-32601", "*")},
		{REQUEST("1", "tool.cancel", "{\"id\":7,\"ids\":8}"),
			ERROR("1", "-32602", "\"message\":\"Unknown parameter \\\"ids\\\"\"")},
		{REQUEST("1", "tool.cancel", "{\"id\":{}}"), ERROR("1", "-32602", "*")},
		{REQUEST("1", "tool.cancel", "{\"id\":7}"), RESULT("1", "{\"cancelled\":false}")},
		{NOTIFICATION("tool.cancel", "{\"id\":7}"), NULL},
		{NOTIFICATION("tool.call", "{}"), NULL},
		{NOTIFICATION("no.method", "{}"), NULL},
		{"{\"jsonrpc\":\"2.0\",\"id\":1,", ERROR("1", "-32700", "*")},
		{"{\"method\":\"tool.call\",\"params\":{\"a\":\"\\ud83d\",\"id\":2},\"id\":\"x\"}",
			ERROR("\"x\"", "-32700", "*write \\\\ufffd in its place*")},
		{"{\"params\":{\"id\":1}", ERROR("null", "-32700", "*")},
		{"[]", ERROR("null", "-32600", "*")},
		{"", NULL},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

#define RAN(command) CALL("run_command", "{\"command\":\"" command "\"}")
#define NOTED(notes) RESULT("1", "{\"success\":true,*\"error\":null,\"notes\":[" notes "],*}")
#define NO_NETWORK                                                                            \
	"\"no network in this workspace: look-ups and connections fail at once; use what is " \
	"installed or in the workspace\""
#define NO_TERMINAL                                                                            \
	"\"it seems to have wanted a terminal or input; there is no terminal: use -y or give " \
	"stdin\""

/* What a command tried in vain, and what ended with it. */
TEST(test_notes_of_commands)
{
	static const struct fake_exchange exchanges[] = {
		{RAN("leave 1"), NOTED("\"1 background process ended with this call\"")},
		{RAN("leave 2"),
			RESULT("1",
				"{*\"notes\":[\"2 background processes ended with this call\"],*"
				"\"processes_ended\":2}}")},
		{RAN("connect x"), NOTED(NO_NETWORK)},
		/* The network is the reason here, and not the terminal that is mentioned. */
		{RAN("connect not a terminal"), NOTED(NO_NETWORK)},
		{RAN("ask name: "), NOTED(NO_TERMINAL)},
		{RAN("ask Proceed? [Y/n]"), NOTED(NO_TERMINAL)},
		{RAN("ask EOFError: EOF when reading a line, in x"), NOTED(NO_TERMINAL)},
		{RAN("ask stdout is not a tty."), NOTED(NO_TERMINAL)},
		{RAN("ask done"), RESULT("1", "{*\"error\":null,\"usage\"*}")},
		{RAN("fail 1"), RESULT("1", "{*\"error\":null,\"usage\"*}")},
		{CALL_WITH("run_command", "{\"command\":\"ask name: \"}", "{\"stdin\":\"x\"}"),
			RESULT("1", "{*\"error\":null,\"usage\"*}")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_commands)
{
	static const struct fake_exchange exchanges[] = {
		{CALL("run_command", "{\"command\":\"echo hi\"}"),
			RESULT("1", "{\"success\":true,\"tool\":\"run_command\",\"output\":{"
				    "\"command\":\"echo hi\",\"exit_code\":0,\"signal\":null,"
				    "\"stdout\":\"hi\\n\",\"stderr\":\"\",\"stdout_bytes\":3,"
				    "\"stderr_bytes\":0,\"truncated\":false,\"timed_out\":false,"
				    "\"ended_by\":\"exit\",\"duration_ms\":*},\"error\":null,"
				    "\"usage\":{\"wall_us\":*,\"user_us\":1000,\"system_us\":500,"
				    "\"max_rss_bytes\":4096}}")},
		{CALL("run_command", "{\"command\":\"fail 3\"}"),
			RESULT("1", "{\"success\":true,*\"exit_code\":3,\"signal\":null,"
				    "\"stdout\":\"\",\"stderr\":\"failed\\n\",*,\"ended_by\":"
				    "\"exit\",*}")},
		{CALL("run_command", "{\"command\":\"signal 11\"}"),
			RESULT("1", "{\"success\":true,*\"exit_code\":null,\"signal\":\"SIGSEGV\",*"
				    "\"ended_by\":\"signal\",*}")},
		{CALL("run_command", "{\"command\":\"signal 40\"}"),
			RESULT("1", "{*\"signal\":\"SIG40\",*}")},
		{CALL("run_command", "{\"command\":\"memory\"}"),
			ENDED("MEMORY_LIMIT",
				"{*\"signal\":\"SIGKILL\",*\"ended_by\":\"memory\",*}")},
		{CALL("run_command", "{\"command\":\"cannot 11\"}"),
			FAILED("run_command", "PROCESS_LIMIT")},
		{CALL("run_command", "{\"command\":\"cannot 2\"}"),
			FAILED("run_command", "EXECUTION_ERROR")},
		{CALL_WITH("run_command", "{\"command\":\"cat\"}", "{\"stdin\":\"some input\"}"),
			RESULT("1", "{\"success\":true,*\"stdout\":\"some input\",*}")},
		{CALL_WITH("run_command", "{\"command\":\"echo x\"}",
			 "{\"encoding\":\"base64\",\"env\":{\"A\":\"b\"}}"),
			RESULT("1", "{*\"stdout\":\"eAo=\",*\"encoding\":\"base64\"}*")},
		{CALL_WITH("run_command", "{\"command\":\"echo x\"}", "{\"stream\":true}"),
			"{\"jsonrpc\":\"2.0\",\"method\":\"tool.output\",\"params\":{\"id\":1,"
			"\"stream\":\"stdout\",\"data\":\"x\\n\",\"seq\":0}}\n" RESULT(
				"1", "{\"success\":true,*\"stdout\":\"x\\n\",*}")},
		{CALL_WITH("run_command", "{\"command\":\"echo x\"}",
			 "{\"stream\":true,\"encoding\":\"base64\"}"),
			"{\"jsonrpc\":\"2.0\",\"method\":\"tool.output\",\"params\":{\"id\":1,"
			"\"stream\":\"stdout\",\"data\":\"eAo=\",\"seq\":0}}\n" RESULT("1", "{*}")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_calls_that_are_cancelled)
{
	static const struct fake_exchange exchanges[] = {
		{CALL("run_command", "{\"command\":\"hang\"}"), NULL},
		{CALL("read_file", "{\"path\":\"f\"}"),
			ERROR("1", "-32600", "\"message\":\"A call with this id*\"")},
		{REQUEST("2", "tool.cancel", "{\"id\":1}"),
			RESULT("2", "{\"cancelled\":true}") "\n" ENDED("CANCELLED",
				"{*\"signal\":\"SIGTERM\",*\"ended_by\":\"cancel\",*}")},
		{CALL("read_file", "{\"path\":\"slow\"}"), NULL},
		{NOTIFICATION("tool.cancel", "{\"id\":1}"), FAILED("read_file", "CANCELLED")},
		{REQUEST("\"two\"", "tool.call",
			 "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}"),
			NULL},
		{REQUEST("2", "tool.cancel", "{\"id\":\"two\"}"),
			RESULT("2", "{\"cancelled\":true}") "\n" RESULT("\"two\"", "{*}")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_input_of_a_running_command)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("2", "tool.input", "{\"id\":1,\"data\":\"x\"}"),
			ERROR("2", "-32000", NAMED("NOT_FOUND"))},
		{CALL_WITH("run_command", "{\"command\":\"cat\"}", "{\"stdin_stream\":true}"),
			NULL},
		{REQUEST("2", "tool.input", "{\"id\":1,\"data\":\"one \"}"),
			RESULT("2", "{\"taken\":4,\"closed\":false}")},
		{REQUEST("2", "tool.input", "{\"id\":1,\"data\":\"dHdv\",\"encoding\":\"base64\"}"),
			RESULT("2", "{\"taken\":3,\"closed\":false}")},
		{REQUEST("2", "tool.input", "{\"id\":1,\"data\":\"?\",\"encoding\":\"base64\"}"),
			ERROR("2", "-32602", "\"message\":\"data is not base64\"")},
		{REQUEST("2", "tool.input", "{\"id\":1,\"data\":1}"),
			ERROR("2", "-32602", "\"message\":\"data must be a string\"")},
		{REQUEST("2", "tool.input", "{\"id\":1,\"encoding\":\"utf-16\"}"),
			ERROR("2", "-32602", "*encoding*")},
		{REQUEST("2", "tool.input", "{\"id\":1,\"encoding\":2}"),
			ERROR("2", "-32602", "*encoding*")},
		{REQUEST("2", "tool.input", "{\"id\":1,\"eof\":1}"), ERROR("2", "-32602", "*eof*")},
		{REQUEST("2", "tool.input", "{\"id\":{}}"), ERROR("2", "-32602", "*id*")},
		{NOTIFICATION("tool.input", "{\"id\":1,\"data\":\"lost\"}"), NULL},
		{REQUEST("2", "tool.input", "{\"id\":1,\"eof\":true}"),
			RESULT("2", "{\"taken\":0,\"closed\":false}") "\n" RESULT(
				"1", "{*\"stdout\":\"one two\",*}")},
		{CALL("run_command", "{\"command\":\"hang\"}"), NULL},
		{REQUEST("2", "tool.input", "{\"id\":1,\"data\":\"x\"}"),
			ERROR("2", "-32000", NAMED("INVALID_ARGUMENTS"))},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

#define OUTPUT(data, seq)           \
	NOTIFICATION("tool.output", \
		"{\"id\":1,\"stream\":\"stdout\",\"data\":\"" data "\",\"seq\":" seq "}")

/* cloisterd sends output as it comes, and never a part of a character. */
TEST(test_output_of_a_running_command)
{
	static const struct {
		const char *written, *told; /* NULL: nothing is sent yet */
	} rows[] = {
		{"a\n", OUTPUT("a\\n", "0")},
		{"b\303", OUTPUT("b", "1")},
		{"\274", OUTPUT("\303\274", "2")},
		{"\360\235", NULL},
		{"\250\200c", OUTPUT("\360\235\250\200c", "3")},
		{"\377d", OUTPUT("\357\277\275"
				 "d",
				  "4")},
		{"\303", NULL},
	};
	static const struct fake_exchange begin[] = {
		{OPEN, OPENED},
		{CALL_WITH("run_command", "{\"command\":\"hang\"}", "{\"stream\":true}"), NULL},
	};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1000, 1000);

	fake_client_talk(&client, begin, ARRAY_SIZE(begin));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake_workers_write(rows[i].written);
		fake_service_pass(*state, 10);
		fake_service_match(
			*state, fake_client_take(&client), rows[i].told ? rows[i].told : "");
	}
	/* The bytes of an unfinished character are sent when the command ends, before the
	 * answer. */
	fake_client_send(&client, NOTIFICATION("tool.cancel", "{\"id\":1}") "\n");
	fake_service_match(*state, fake_client_take(&client),
		OUTPUT("\357\277\275", "5") "\n" RESULT("1", "{*}"));
	fake_client_close(&client);
}

TEST(test_answers_for_a_model)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "tool.call",
			 "{\"tool_call\":{\"id\":\"call_1\",\"type\":\"function\",\"function\":{"
			 "\"name\":\"read_file\",\"arguments\":\"{\\\"path\\\":\\\"f\\\"}\"}},"
			 "\"options\":{\"reply\":\"message\"}}"),
			RESULT("1",
				"{\"role\":\"tool\",\"tool_name\":\"read_file\","
				"\"tool_call_id\":\"call_1\","
				"\"content\":\"f (2 lines)\\none\\ntwo\\n[here: no network; no "
				"root or sudo, and the system is read-only; list_directory and "
				"search_files leave out what .gitignore names; no terminal: use -y "
				"or give stdin; commands are run by bash if there is one, else sh; "
				"files in the workspace stay, HOME and /tmp are emptied when it "
				"closes, and what a command leaves running ends with its call; a "
				"command may take 30 s, with timeout_ms up to 60 min; all of this "
				"workspace together may have 512 processes]\"}")},
		{REQUEST("1", "tool.call",
			 "{\"tool_call\":{\"function\":{\"name\":\"run_command\",\"arguments\":{"
			 "\"command\":\"echo a\"}}},\"options\":{\"reply\":\"message\"}}"),
			RESULT("1", "{\"role\":\"tool\",\"tool_name\":\"run_command\","
				    "\"content\":\"exit 0\\na\\n\"}")},
		{REQUEST("1", "tool.call",
			 "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"echo a\"},"
			 "\"options\":{\"reply\":\"message\",\"encoding\":\"base64\"}}"),
			RESULT("1", "{*\"content\":\"{*\\\"stdout\\\":\\\"YQo=\\\"*}\"}")},
		{REQUEST("1", "tool.call",
			 "{\"tool_call\":{\"function\":{\"name\":\"fly\",\"arguments\":{}}},"
			 "\"options\":{\"reply\":\"message\"}}"),
			RESULT("1", "{*\"tool_name\":\"fly\",\"content\":\"UNKNOWN_TOOL: *\"}")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

/* With max_output, a program gets as much as a model is shown, as an observation. */
TEST(test_a_part_is_shown)
{
	static const struct fake_exchange exchanges[] = {
		{CALL_WITH("read_file", "{\"path\":\"f\"}", "{\"max_output\":4}"),
			DONE("read_file", "{\"path\":\"f\",\"content\":\"one\\n\",\"lines\":1,"
					  "\"total_lines\":2,"
					  "\"size\":8,\"truncated\":true,\"encoding\":\"utf-8\","
					  "\"note\":\"Line 2 is "
					  "not shown; read_file with start_line=2 shows it\"}")},
		{CALL_WITH("read_file", "{\"path\":\"f\"}", "{\"max_output\":5}"),
			DONE("read_file", "{*\"content\":\"one\\ntwo\\n\",*\"truncated\":false,"
					  "\"encoding\":\"utf-8\"}")},
		{CALL_WITH("read_file", "{\"path\":\"f\"}",
			 "{\"max_output\":4,\"encoding\":\"base64\"}"),
			DONE("read_file", "{*\"content\":\"b25lCg==\",*\"truncated\":true,*}")},
		{CALL_WITH("run_command", "{\"command\":\"echo 123456789\"}", "{\"max_output\":4}"),
			DONE("run_command",
				"{*\"stdout\":\"12\\n[… 6 bytes left out; *]\\n9\\n\",*"
				"\"stdout_bytes\":10,\"stderr_bytes\":0,\"truncated\":true,*}")},
		{CALL_WITH("read_file", "{\"path\":\"f\"}", "{\"max_output\":0}"),
			ERROR("1", "-32602", "*max_output*")},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

TEST(test_tools_are_listed)
{
	static const struct fake_exchange exchanges[] = {
		{REQUEST("1", "tools.list", "{}"),
			RESULT("1",
				"{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":*]}")},
		{REQUEST("1", "tools.list", "{\"format\":\"mcp\"}"),
			RESULT("1", "{\"tools\":[{\"name\":*\"inputSchema\":*]}")},
		{REQUEST("1", "tools.list", "{\"format\":\"openai\",\"limits\":true}"),
			RESULT("1", "{\"tools\":[*],\"instructions\":\"no network; *\"}")},
		{REQUEST("1", "tools.list", "{\"limits\":true,\"workspace\":\"@/root\"}"),
			RESULT("1", "{\"tools\":[*],\"instructions\":\"no network; *\"}")},
		{REQUEST("1", "tools.list", "{\"limits\":true,\"workspace\":\"other\"}"),
			ERROR("1", "-32000", NAMED("WORKSPACE_NOT_FOUND"))},
		{REQUEST("1", "tools.list", "{\"format\":\"xml\"}"),
			ERROR("1", "-32602", "*format*")},
		{REQUEST("1", "tools.list", "{\"limits\":1}"), ERROR("1", "-32602", "*limits*")},
		{REQUEST("1", "tools.list", "{\"workspace\":1}"),
			ERROR("1", "-32602", "*workspace*")},
		{NOTIFICATION("tools.list", "{}"), NULL},
	};

	talk(state, exchanges, ARRAY_SIZE(exchanges));
}

/* cloisterd refuses calls that exceed a limit of the service. */
TEST(test_calls_that_are_refused)
{
	static const struct fake_exchange
		busy = {CALL("read_file", "{\"path\":\"f\"}"),
			RESULT("1", "{*\"code\":\"BUSY\",*\"retry_after_ms\":*}")},
		waits = {REQUEST("2", "tool.call",
				 "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"slow\"}}"),
			NULL},
		leaves = {CALL("read_file", "{\"path\":\"f\"}"),
			FAILED("read_file", "SHUTTING_DOWN")};
	struct fake_service *fake = *state;
	struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1000, 1000);
	struct tenant_limits *limits = &fake->service.config->tenants[0]->limits;

	fake_client_talk(&client, &(struct fake_exchange){OPEN, OPENED}, 1);
	fake->service.draining = true;
	fake_client_talk(&client, &leaves, 1);
	fake->service.draining = false;
	fake->service.shutting_down = true;
	fake_client_talk(&client, &leaves, 1);
	fake->service.shutting_down = false;
	limits->calls = 1;
	fake_client_talk(&client, &waits, 1);
	fake_client_talk(&client, &busy, 1);
	assert_int_equal(fake->service.admission.refused[ADMISSION_TENANT_CALLS], 1);
	limits->calls = 100;
	limits->calls_per_connection = 1;
	fake_client_talk(&client, &busy, 1);
	assert_int_equal(fake->service.admission.refused[ADMISSION_CONNECTION_CALLS], 1);
	fake_client_close(&client);
}
