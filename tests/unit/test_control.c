/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* The control socket's methods, from an administrator's or an observer's line to its answer. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/control/control_endpoint.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#define ADMINS    50
#define OBSERVERS 51
#define AGENT     1001

static const char config[] = "[cloister]\n"
			     "admin_group = 50\n"
			     "observer_group = 51\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "roots = @/root\n"
			     "managed = yes\n"
			     "[tenant two]\n"
			     "users = 1001\n"
			     "roots = @/root\n"
			     "managed = yes\n";

/* A service with an administrator, an observer and an agent. */
struct house {
	struct fake_service *fake;
	struct fake_client admin, observer, agent;
};

static int set_up(void **state)
{
	static struct house house;

	house.fake = fake_service_new(config);
	house.admin = fake_client_connect(house.fake, &control_endpoint, 1, ADMINS);
	house.observer = fake_client_connect(house.fake, &control_endpoint, 2, OBSERVERS);
	house.agent = fake_client_connect(house.fake, &agent_endpoint, AGENT, AGENT);
	*state = &house;
	return 0;
}

static int tear_down(void **state)
{
	struct house *house = *state;

	fake_client_close(&house->admin);
	fake_client_close(&house->observer);
	fake_client_close(&house->agent);
	fake_service_free(house->fake);
	return 0;
}

FIXTURE(set_up, tear_down)

#define ASK(method, params) REQUEST("1", method, params)
#define ANSWER(result)      RESULT("1", result)
#define OPEN                REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}")
#define OPENED              RESULT("0", "{*}")
#define HANG(id) \
	REQUEST(id, "tool.call", "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}")

/* Which roles each method allows. */
TEST(test_roles)
{
	static const struct {
		const char *method;
		bool looks; /* an observer may call it */
	} rows[] = {
		{"status", true},
		{"health", true},
		{"workspaces", true},
		{"commands", true},
		{"tenants", true},
		{"show", true},
		{"doctor", true},
		{"metrics", true},
		{"events", true},
		{"kill", false},
		{"drain", false},
		{"resume", false},
		{"selftest", false},
		{"reload", false},
	};
	struct house *house = *state;
	char line[128];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(line, sizeof(line), ASK("%s", "{}"), rows[i].method);
		fake_client_says(&house->observer, line,
			rows[i].looks ? "{\"jsonrpc\":\"2.0\",\"id\":1,*}"
				      : ERROR("1", "-32000",
						"\"message\":\"Only a member of the admin group "
						"may do this\",\"data\":{\"code\":\"FORBIDDEN\"}"));
		if (rows[i].looks)
			continue;
		snprintf(line, sizeof(line), NOTIFICATION("%s", "{}"), rows[i].method);
		fake_client_says(&house->observer, line, NULL);
	}
	assert_false(house->fake->service.draining);
}

/* The control socket has none of the agent socket's methods, and refuses unknown ones. */
TEST(test_what_is_not_there)
{
	struct house *house = *state;

	fake_client_says(&house->admin, ASK("tool.call", "{}"), ERROR("1", "-32601", "*"));
	fake_client_says(&house->admin, ASK("workspace.open", "{}"), ERROR("1", "-32601", "*"));
	fake_client_says(&house->admin, ASK("status", "{\"verbose\":true}"),
		ERROR("1", "-32602", "*verbose*"));
	fake_client_says(
		&house->admin, ASK("selftest", "{}"), ERROR("1", "-32000", NAMED("NOT_FOUND")));
	fake_client_says(
		&house->admin, ASK("reload", "{}"), ERROR("1", "-32000", NAMED("NOT_FOUND")));
}

TEST(test_notifications_are_not_answered)
{
	static const char *const methods[] = {"status", "workspaces", "commands", "tenants", "show",
		"doctor", "metrics", "drain", "resume", "selftest", "reload", "kill"};
	struct house *house = *state;
	char line[128];

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		snprintf(line, sizeof(line), NOTIFICATION("%s", "{}"), methods[i]);
		fake_client_says(&house->admin, line, NULL);
	}
}

TEST(test_status)
{
	struct house *house = *state;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent, HANG("1"), NULL);
	fake_client_says(&house->admin, ASK("status", "{}"),
		ANSWER("{\"version\":\"*\",\"state\":\"serving\",\"moved_to\":null,\"role\":"
		       "\"admin\",\"uptime_ms\":*"
		       ","
		       "\"tenants\":2,\"connections\":1,\"control_connections\":2,\"calls\":1,"
		       "\"calls_waiting\":0,\"commands_running\":1,\"memory_bound\":*,"
		       "\"unread_bytes\":*,\"refused\":0,\"commands_limit\":256,\"commands_per_"
		       "cpu\":3,\"commands_soft_limit\":*,\"cells_lost\":0,"
		       "\"files_processes_lost\":0,\"cells_ended_idle\":0,\"spare_cells\":*,"
		       "\"spare_cells_used\":0,\"workspaces\":{\"closed\":0,\"resting\":0,"
		       "\"opening\":0,\"open\":1,\"mending\":0,\"ending\":0,\"quarantined\":0},"
		       "\"workspaces_existing\":0,\"audit\":null,\"keys\":null,\"enforcement\":[{"
		       "\"what\":"
		       "\"memory\",\"enforced\":false,\"by\":\"none\",\"why\":\"no cgroup in a "
		       "test\"},*"
		       "{\"what\":\"network\",\"enforced\":true,\"by\":\"network namespace\","
		       "\"why\":null},*],\"tasks\":{\"of_host\":null,\"limited_by\":null,"
		       "\"left\":null,\"of_commands\":*},\"shared_budgets\":[*]}"));
	fake_client_says(
		&house->observer, ASK("status", "{}"), ANSWER("{*\"role\":\"observer\",*}"));
	house->fake->service.shutting_down = true;
	fake_client_says(
		&house->observer, ASK("status", "{}"), ANSWER("{*\"state\":\"shutting down\",*}"));
}

#define ROOT_OPEN(commands)                                                                   \
	"{\"workspace\":\"@/"                                                                 \
	"root\",\"tenant\":\"one\",\"kind\":\"directory\",\"home\":\"temporary\",\"state\":"  \
	"\"open\",\"trouble\":null,\"trouble_age_ms\":null,\"users\":*,\"running\":" commands \
	",\"commands\":" commands ",\"waiting\":0,\"age_ms\":*,"                              \
	"\"idle_ms\":*,\"checkpoints\":0,\"disk_bytes\":8192,\"disk_files\":2,\"disk_limit_"  \
	"bytes\":null,\"disk_"                                                                \
	"limited_by\":\"none\",\"disk_partial\":false,\"cpu_milli\":"                         \
	"null,\"memory_bytes\":null,\"io_bytes_per_second\":null,"                            \
	"\"ended_cpu_us\":0}"
#define HANGING                                                                                  \
	"{\"call\":\"*\",\"tenant\":\"one\",\"workspace\":\"@/root\",\"tool\":"                  \
	"\"run_command\",\"command\":\"hang\",\"cut\":false,\"state\":\"running\",\"age_ms\":*," \
	"\"deadline_ms\":30000}"

TEST(test_lists)
{
	struct house *house = *state;

	fake_client_says(&house->admin, ASK("workspaces", "{}"), ANSWER("{\"workspaces\":[]}"));
	fake_client_says(&house->admin, ASK("commands", "{}"), ANSWER("{\"calls\":[]}"));
	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent, HANG("1"), NULL);
	fake_client_says(&house->admin, ASK("workspaces", "{}"),
		ANSWER("{\"workspaces\":[" ROOT_OPEN("1") "]}"));
	fake_client_says(&house->admin, ASK("commands", "{}"), ANSWER("{\"calls\":[" HANGING "]}"));
	fake_client_says(&house->agent,
		REQUEST("2", "tool.call",
			"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"slow\"}}"),
		NULL);
	fake_client_says(&house->admin, ASK("commands", "{}"),
		ANSWER("{\"calls\":[" HANGING
		       ",{*\"tool\":\"read_file\",\"subject\":\"slow\",*}]}"));
	fake_client_says(&house->admin, ASK("tenants", "{}"),
		ANSWER("{\"tenants\":[{\"tenant\":\"one\",\"managed\":true,\"connections\":1,"
		       "\"calls\":2,\"workspaces\":1,\"workspaces_existing\":0,\"weight\":100,"
		       "\"commands\":1,\"file_jobs\":0,\"waiting\":0,\"cpu_milli\":null,*\"ended_"
		       "cpu_us\":0,\"limits\":{\"connections\":"
		       "128,"
		       "*}},{\"tenant\":\"two\",*}]}"));
}

TEST(test_show)
{
	static const struct {
		const char *params, *answer;
	} rows[] = {
		{"{}", ERROR("1", "-32602", "*give either*")},
		{"{\"call\":1}", ERROR("1", "-32602", "*give either*")},
		{"{\"call\":\"c\",\"workspace\":\"w\"}", ERROR("1", "-32602", "*give either*")},
		{"{\"call\":\"c\",\"tenant\":\"one\"}", ERROR("1", "-32602", "*give either*")},
		{"{\"call\":\"c\"}", ERROR("1", "-32000", NAMED("NOT_FOUND"))},
		{"{\"workspace\":\"w\"}", ERROR("1", "-32000", NAMED("WORKSPACE_NOT_FOUND"))},
		{"{\"workspace\":\"@/root\"}",
			ANSWER("{\"workspaces\":[" ROOT_OPEN("1") "],\"calls\":[" HANGING "]}")},
		{"{\"workspace\":\"@/root\",\"tenant\":\"one\"}", ANSWER("{*}")},
		{"{\"workspace\":\"@/root\",\"tenant\":\"two\"}",
			ERROR("1", "-32000", NAMED("WORKSPACE_NOT_FOUND"))},
	};
	struct house *house = *state;
	char line[256];

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent, HANG("1"), NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(line, sizeof(line), ASK("show", "%s"), rows[i].params);
		fake_client_says(&house->observer, line, rows[i].answer);
	}
}

TEST(test_kill)
{
	struct house *house = *state;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent, HANG("1"), NULL);
	fake_client_says(&house->agent,
		REQUEST("2", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"stubborn\"}}"),
		NULL);
	fake_client_says(&house->admin, ASK("kill", "{\"workspace\":\"@/root\"}"),
		ANSWER("{\"told\":2,\"already_ending\":0}"));
	fake_service_match(house->fake, fake_client_take(&house->agent),
		RESULT("1", "{\"success\":false,*\"ended_by\":\"admin\",*\"code\":\"CANCELLED\","
			    "\"message\":"
			    "\"An administrator ended the command; *\"},*}"));
	fake_client_says(&house->admin, ASK("kill", "{\"workspace\":\"@/root\"}"),
		ANSWER("{\"told\":0,\"already_ending\":1}"));
	fake_client_says(&house->admin, NOTIFICATION("kill", "{\"workspace\":\"@/root\"}"), NULL);
}

/* A call runs in the workspace all the time, so its work goes on here. */
TEST(test_drain_to_another_host)
{
	struct house *house = *state;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent, HANG("1"), NULL);
	fake_client_says(&house->admin, ASK("drain", "{\"moved_to\":\"a b\"}"),
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{*\"message\":\"moved_to must be *}}");
	fake_client_says(&house->admin, ASK("drain", "{\"moved_to\":\"node-b\"}"),
		ANSWER("{\"draining\":true,\"moved_to\":\"node-b\",\"calls\":1}"));
	fake_client_says(&house->admin, ASK("status", "{}"),
		ANSWER("{*\"state\":\"draining\",\"moved_to\":\"node-b\",*}"));
	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(
		&house->admin, ASK("resume", "{}"), ANSWER("{\"draining\":false,\"calls\":1}"));
	fake_client_says(&house->admin, ASK("status", "{}"), ANSWER("{*\"moved_to\":null,*}"));
}

TEST(test_doctor)
{
	struct house *house = *state;

	fake_client_says(&house->observer, ASK("doctor", "{}"),
		ANSWER("{\"features\":[{\"feature\":\"*\",\"present\":*,\"cost\":*,\"fix\":*},*]"
		       "}"));
}

/* Two tenants have workspaces of the same name. cloisterd refuses instead of guessing. */
TEST(test_names_that_two_have)
{
	struct house *house = *state;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent,
		REQUEST("0", "workspace.open", "{\"root\":\"@/root\",\"tenant\":\"two\"}"), OPENED);
	fake_client_says(&house->admin, ASK("kill", "{\"workspace\":\"@/root\"}"),
		ERROR("1", "-32602", "*name the tenant*"));
	fake_client_says(&house->admin,
		ASK("show", "{\"workspace\":\"@/root\",\"tenant\":\"one\"}"),
		ANSWER("{\"workspaces\":[" ROOT_OPEN("0") "],\"calls\":[]}"));
}

TEST(test_metrics)
{
	static const char *const lines[] = {
		"# TYPE cloister_calls counter\\n",
		"cloister_calls_total{tool=\\\"run_command\\\",code=\\\"OK\\\"} 1\\n",
		"cloister_calls_total{tool=\\\"read_file\\\",code=\\\"NOT_FOUND\\\"} 1\\n",
		"cloister_calls_refused_total{code=\\\"UNKNOWN_TOOL\\\"} 1\\n",
		"cloister_commands_total{ended_by=\\\"exit\\\"} 1\\n",
		"cloister_call_duration_seconds_count{tool=\\\"run_command\\\"} 1\\n",
		"_seconds_bucket{tool=\\\"run_command\\\",le=\\\"+Inf\\\"} 1\\n",
		"cloister_call_duration_seconds_count{tool=\\\"write_file\\\"} 0\\n",
		"cloister_calls_in_flight{state=\\\"running\\\"} 1\\n",
		"cloister_calls_in_flight{state=\\\"waiting\\\"} 0\\n",
		"cloister_commands_running 1\\n",
		"cloister_connections{socket=\\\"agent\\\"} 1\\n",
		"cloister_connections{socket=\\\"control\\\"} 2\\n",
		"cloister_workspaces{state=\\\"open\\\"} 1\\n",
		"cloister_refused_total{limit=\\\"connections\\\"} 0\\n",
		"cloister_cells_lost_total 0\\n",
		"cloister_spare_cells ",
		"cloister_tenant_connections{tenant=\\\"one\\\"} 1\\n",
		"cloister_tenant_calls{tenant=\\\"two\\\"} 0\\n",
		"cloister_tenant_calls_ended_total{tenant=\\\"one\\\"} 2\\n",
		"cloister_tenant_command_cpu_seconds_total{tenant=\\\"one\\\"} 0.001500\\n",
		"cloister_tenant_turns_running{tenant=\\\"one\\\",kind=\\\"command\\\"} 1\\n",
		"cloister_tenant_turns_waiting{tenant=\\\"one\\\",kind=\\\"file_job\\\"} 0\\n",
		"cloister_memory_bound_bytes ",
		"cloister_shared_budget_enough_for{budget=",
		"cloister_log_lines_lost_total 0\\n",
		"# EOF\\n\"}}",
	};
	struct house *house = *state;
	const char *text;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->agent,
		ASK("tool.call", "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"echo\"}}"),
		ANSWER("{*}"));
	fake_client_says(&house->agent,
		ASK("tool.call", "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"missing\"}}"),
		ANSWER("{*}"));
	fake_client_says(&house->agent, ASK("tool.call", "{\"tool\":\"fly\",\"arguments\":{}}"),
		ANSWER("{*}"));
	fake_client_says(&house->agent, HANG("1"), NULL);
	fake_client_send(&house->observer, ASK("metrics", "{}") "\n");
	text = fake_client_take(&house->observer);
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!strstr(text, lines[i]))
			fail_msg("no %s in %s", lines[i], text);
}

TEST(test_events)
{
	struct house *house = *state;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->observer, ASK("events", "{}"), ANSWER("{}"));
	fake_client_says(&house->observer, ASK("events", "{}"), ANSWER("{}"));
	fake_client_says(&house->admin, NOTIFICATION("events", "{}"), NULL);
	fake_client_says(&house->agent,
		ASK("tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"fail 1\"}}"),
		ANSWER("{*}"));
	fake_service_match(house->fake, fake_client_take(&house->observer),
		NOTIFICATION("event",
			"{\"event\":\"call_begin\",\"time_ms\":*,\"call\":\"*\",\"tenant\":\"one\","
			"\"workspace\":\"@/root\",\"tool\":\"run_command\",\"command\":\"fail 1\","
			"\"cut\":false,\"deadline_ms\":30000}") "\n" NOTIFICATION("event",
			"{\"event\":\"call_end\",\"time_ms\":*,\"call\":\"*\",*\"success\":true,"
			"\"code\":null,\"ended_by\":\"exit\",\"wall_us\":*}"));
	fake_client_says(&house->agent,
		ASK("tool.call", "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"missing\"}}"),
		ANSWER("{*}"));
	fake_service_match(house->fake, fake_client_take(&house->observer),
		"*\"subject\":\"missing\",*\n*\"success\":false,\"code\":\"NOT_FOUND\",\"ended_"
		"by\":"
		"null,*");
	/* A client whose role is withdrawn by a reload gets no more events, and FORBIDDEN as its
	 * next answer. */
	fake_service_reconfigure(house->fake, "[tenant one]\nusers = 1001\nroots = @/root\n");
	fake_client_says(&house->agent,
		ASK("tool.call", "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"}}"),
		ANSWER("{*}"));
	assert_string_equal(fake_client_take(&house->observer), "");
	fake_client_says(
		&house->observer, ASK("status", "{}"), ERROR("1", "-32000", NAMED("FORBIDDEN")));
}

/* cloisterd does not wait for an observer that does not read: it counts the events instead of
 * sending them. */
TEST(test_an_observer_that_does_not_read)
{
	static const char call[] =
		ASK("tool.call", "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"}}");
	struct house *house = *state;
	struct unread_account hog;

	fake_client_says(&house->agent, OPEN, OPENED);
	fake_client_says(&house->observer, ASK("events", "{}"), ANSWER("{}"));
	unread_open(&hog, &house->fake->service.unread);
	unread_count(&hog, LIMIT_UNREAD_BYTES);
	/* Bytes that are already on their way are still delivered. Later events are only
	 * counted. */
	fake_client_says(&house->agent, call, ANSWER("{*}"));
	(void)fake_client_take(&house->observer);
	fake_client_says(&house->agent, call, ANSWER("{*}"));
	fake_client_says(&house->agent, call, ANSWER("{*}"));
	assert_string_equal(fake_client_take(&house->observer), "");
	unread_close(&hog);
	fake_service_run(house->fake);
	fake_client_says(&house->agent, call, ANSWER("{*}"));
	fake_service_match(house->fake, fake_client_take(&house->observer),
		NOTIFICATION("event",
			"{\"event\":\"missed\",\"time_ms\":*,\"count\":*}") "\n" NOTIFICATION("even"
											      "t",
			"{\"event\":\"call_begin\",*}") "\n" NOTIFICATION("event",
			"{\"event\":\"call_end\",*}"));
}
