/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* What the audit log records of clients' actions, and what cloisterd refuses when a required log
 * cannot be written. */
#include "supervisor/audit/audit.h"

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/control/control_endpoint.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

static const char config[] = "[cloister]\n"
			     "admin_group = 50\n"
			     "observer_group = 51\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "roots = @/root\n"
			     "managed = yes\n";

static struct audit *audit;

static void begin(struct fake_service *fake, bool required)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/log/audit.log", fake->scratch.path);
	assert_int_equal(audit_new(path, required, &(struct audit_rotation){0}, &audit), 0);
	assert_int_equal(audit_start(audit), 0);
	fake->service.audit = audit;
	fake->observers[0].context = audit;
}

static int set_up(void **state)
{
	*state = fake_service_new(config);
	begin(*state, false);
	return 0;
}

static int set_up_required(void **state)
{
	*state = fake_service_new(config);
	begin(*state, true);
	return 0;
}

static int tear_down(void **state)
{
	fake_service_free(*state);
	audit_free(audit);
	return 0;
}

FIXTURE(set_up, tear_down)

#define OPEN REQUEST("1", "workspace.open", "{\"root\":\"@/root\"}")
#define CALL(tool, arguments) \
	REQUEST("1", "tool.call", "{\"tool\":\"" tool "\",\"arguments\":" arguments "}")
#define LINE(event, rest) "\"time\":\"*-*-*T*:*:*.*Z\",\"event\":\"" event "\"," rest
#define WHO               "\"uid\":1001,\"gid\":1001,\"pid\":4321"
#define WORKSPACE         "\"tenant\":\"one\",\"workspace\":\"@/root\""
#define CALL_HEAD(tool)   "\"call\":\"*\"," WHO "," WORKSPACE ",\"tool\":\"" tool "\""
#define ADMITTED(tool, digest)                                                               \
	LINE("call.admitted", CALL_HEAD(tool) ",*\"arguments\":\"" digest "\",\"decision\":" \
					      "\"allow\",\"deadline_ms\":30000")
#define ENDED(tool, rest) LINE("call.ended", CALL_HEAD(tool) "," rest)

struct row {
	const char *says, *lines;
};

static void talk(
	struct fake_service *fake, struct fake_client *client, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fake_client_send(client, rows[i].says);
		fake_client_send(client, "\n");
		(void)fake_client_take(client);
		fake_service_match(fake, fake_audit_take(), rows[i].lines);
	}
}

TEST(test_what_agents_do)
{
	static const struct row rows[] = {
		{OPEN, LINE("workspace.opened", WHO "," WORKSPACE ",\"kind\":\"directory\"")},
		/* SHA-256 of "path\0s1\0f". */
		{CALL("read_file", "{\"path\":\"f\"}"),
			ADMITTED("read_file", "a864708da886a593f4daa88bd8ec3e7f00624f5c05cec6d34e0a"
					      "5140368446f6") "\n" ENDED("read_file",
				"\"success\":true,\"code\":null,\"cause\":null,"
				"\"usage\":{\"wall_us\":*}")},
		{CALL("read_file", "{\"path\":\"missing\"}"),
			ADMITTED("read_file", "*") "\n" ENDED("read_file",
				"\"success\":false,\"code\":\"NOT_FOUND\",\"cause\":null,*")},
		{CALL("run_command", "{\"command\":\"fail 3\",\"timeout_ms\":30000}"),
			ADMITTED("run_command", "*") "\n" ENDED("run_command",
				"\"success\":true,\"code\":null,\"cause\":\"exit\","
				"\"wait_status\":768,\"usage\":{*\"max_rss_bytes\":4096}")},
		{CALL("run_command", "{\"command\":\"cannot 2\"}"),
			ADMITTED("run_command", "*") "\n" ENDED("run_command",
				"\"success\":false,\"code\":\"EXECUTION_ERROR\","
				"\"cause\":null,*")},
		{CALL("read_file", "{\"path\":\"../x\"}"),
			LINE("call.refused",
				WHO "," WORKSPACE ",\"tool\":\"read_file\",\"decision\":"
				    "\"refuse\",\"code\":\"PATH_OUTSIDE_WORKSPACE\"")},
		{CALL("fly", "{}"),
			LINE("call.refused", WHO "," WORKSPACE ",\"tool\":\"fly\",\"decision\":"
						 "\"refuse\",\"code\":\"UNKNOWN_TOOL\"")},
		{REQUEST("1", "tool.call", "{\"x\":1}"),
			LINE("call.refused", WHO "," WORKSPACE ",\"decision\":\"refuse\",\"code\":"
						 "\"INVALID_PARAMS\"")},
		{REQUEST("1", "tool.call", "{\"workspace\":1}"),
			LINE("call.refused",
				WHO ",\"decision\":\"refuse\",\"code\":\"INVALID_PARAMS\"")},
		{REQUEST("1", "tool.call", "{\"workspace\":\"no\"}"),
			LINE("call.refused",
				WHO ",\"decision\":\"refuse\",\"code\":\"WORKSPACE_NOT_FOUND\"")},
		{REQUEST("1", "workspace.open", "{\"root\":\"/elsewhere\"}"),
			LINE("workspace.open", WHO ",\"workspace\":\"/elsewhere\",\"decision\":"
						   "\"refuse\",\"code\":\"FORBIDDEN\"")},
		{REQUEST("1", "workspace.open", "{}"),
			LINE("workspace.open", WHO ",\"decision\":\"refuse\",\"code\":"
						   "\"INVALID_ARGUMENTS\"")},
		{REQUEST("1", "workspace.close", "{}"),
			LINE("workspace.closed", WHO "," WORKSPACE ",\"kind\":\"directory\"")},
		{REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}"),
			LINE("workspace.opened",
				WHO ",\"tenant\":\"one\",\"workspace\":\"w\",\"kind\":"
				    "\"managed\"")},
		{REQUEST("1", "workspace.remove", "{\"workspace\":\"w\"}"),
			LINE("workspace.closed", "*") "\n" LINE("workspace.removed",
				WHO ",*\"workspace\":\"w\",\"kind\":\"managed\"")},
		{REQUEST("1", "workspace.remove", "{\"workspace\":\"w\"}"),
			LINE("workspace.remove", WHO ",\"workspace\":\"w\",\"decision\":\"refuse\","
						     "\"code\":\"WORKSPACE_NOT_FOUND\"")},
		{REQUEST("1", "workspace.list", "{}"), ""},
		{REQUEST("1", "ping", "{}"), ""},
	};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1001, 1001);

	talk(*state, &client, rows, ARRAY_SIZE(rows));
	fake_client_close(&client);
}

/* The digest depends on the arguments alone: not on their order, nor on the form of the request. */
TEST(test_digests)
{
	static const char *const same[] = {
		CALL("search_files", "{\"pattern\":\"a\",\"path\":\"d\",\"max_results\":3}"),
		CALL("search_files", "{\"max_results\":3,\"path\":\"d\",\"pattern\":\"a\"}"),
		REQUEST("1", "tool.call",
			"{\"tool_call\":{\"function\":{\"name\":\"search_files\",\"arguments\":"
			"\"{\\\"path\\\":\\\"d\\\",\\\"pattern\\\":\\\"a\\\",\\\"max_results\\\":3}"
			"\"}}}"),
	};
	static const char *const others[] = {
		CALL("search_files", "{\"pattern\":\"a\",\"path\":\"d\",\"max_results\":4}"),
		CALL("search_files", "{\"pattern\":\"d\",\"path\":\"a\",\"max_results\":3}"),
		CALL("search_files", "{\"pattern\":\"a\",\"path\":\"d\"}"),
		REQUEST("1", "tool.call",
			"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"},\"options\":{"
			"\"path_base64\":\"Zw==\"}}"),
		CALL("read_file", "{\"path\":\"g\"}"),
	};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1001, 1001);
	char first[80] = "", seen[ARRAY_SIZE(others)][80];

	fake_client_send(&client, OPEN "\n");
	fake_client_take(&client);
	fake_audit_take();
	for (size_t i = 0; i < ARRAY_SIZE(same) + ARRAY_SIZE(others); i++) {
		const char *at,
			*says = i < ARRAY_SIZE(same) ? same[i] : others[i - ARRAY_SIZE(same)];
		char *digest = i == 0 ? first : (char[80]){0};

		fake_client_send(&client, says);
		fake_client_send(&client, "\n");
		fake_client_take(&client);
		at = strstr(fake_audit_take(), "\"arguments\":\"");
		if (!at)
			fail_msg("no digest for %s", says);
		snprintf(digest, 80, "%.64s", at + strlen("\"arguments\":\""));
		if (i < ARRAY_SIZE(same)) {
			assert_string_equal(digest, first);
			continue;
		}
		assert_string_not_equal(digest, first);
		strcpy(seen[i - ARRAY_SIZE(same)], digest);
		for (size_t j = 0; j < i - ARRAY_SIZE(same); j++)
			assert_string_not_equal(digest, seen[j]);
	}
	fake_client_close(&client);
}

TEST(test_what_administrators_do)
{
	static const struct row rows[] = {
		{REQUEST("1", "drain", "{}"),
			LINE("admin.act", "\"uid\":7,\"gid\":50,\"pid\":4321,\"act\":\"drain\","
					  "\"outcome\":\"done\"")},
		{REQUEST("1", "resume", "{}"),
			LINE("admin.act", "*\"act\":\"resume\",\"outcome\":\"done\"")},
		{REQUEST("1", "kill", "{\"workspace\":\"w\"}"), ""},
		{REQUEST("1", "status", "{}"), ""},
		{REQUEST("1", "metrics", "{}"), ""},
	};
	static const struct row refused[] = {
		{REQUEST("1", "drain", "{}"),
			LINE("admin.act", "\"uid\":8,\"gid\":51,\"pid\":4321,\"act\":\"drain\","
					  "\"outcome\":\"FORBIDDEN\"")},
	};
	struct fake_client admin = fake_client_connect(*state, &control_endpoint, 7, 50);
	struct fake_client observer = fake_client_connect(*state, &control_endpoint, 8, 51);

	talk(*state, &admin, rows, ARRAY_SIZE(rows));
	talk(*state, &observer, refused, ARRAY_SIZE(refused));
	audit_act(audit, NULL, "reload", text_from("it"), "done");
	fake_service_match(*state, fake_audit_take(),
		LINE("admin.act", "\"by\":\"signal\",\"act\":\"reload\",\"target\":\"it\","
				  "\"outcome\":\"done\""));
	fake_client_close(&admin);
	fake_client_close(&observer);
}

/* The log has a bounded number of these events a second, and says how many it left out. */
TEST(test_unauthorized_clients)
{
	static const struct peer_credentials peer = {.uid = 5, .gid = 6, .pid = 7};

	for (int i = 0; i < LIMIT_AUDIT_UNAUTHORIZED; i++) {
		audit_unauthorized_client(audit, &peer, "agent");
		fake_service_match(*state, fake_audit_take(),
			LINE("stranger.refused",
				"\"uid\":5,\"gid\":6,\"pid\":7,\"socket\":\"agent\",\"decision\":"
				"\"refuse\",\"code\":\"FORBIDDEN\""));
	}
	audit_unauthorized_client(audit, &peer, "agent");
	audit_unauthorized_client(audit, &peer, "agent");
	assert_string_equal(fake_audit_take(), "");
	fake_service_pass(*state, 1000);
	audit_unauthorized_client(audit, &peer, "agent");
	fake_service_match(
		*state, fake_audit_take(), LINE("stranger.refused", "*,\"strangers_before\":2"));
	audit_unauthorized_client(audit, &peer, "control");
	fake_service_match(*state, fake_audit_take(),
		LINE("stranger.refused", "*\"socket\":\"control\",\"decision\":\"refuse\",\"code\":"
					 "\"FORBIDDEN\""));
}

/* Every function accepts NULL, which stands for an audit log that is off. */
TEST(test_a_log_that_is_off)
{
	static const struct peer_credentials peer = {0};
	struct audit_state look;

	assert_int_equal(audit_start(NULL), 0);
	audit_reopen(NULL);
	assert_null(audit_forbids(NULL));
	assert_false(audit_look(NULL, &look));
	audit_call_refused(NULL, &peer, NULL, "x", "x");
	audit_unauthorized_client(NULL, &peer, "agent");
	audit_workspace(NULL, "x", &peer, NULL);
	audit_workspace_refused(NULL, "x", &peer, text_from("x"), TOOL_BUSY);
	audit_act(NULL, &peer, "x", text_from("x"), "x");
	audit_free(NULL);
	assert_string_equal(fake_audit_take(), "");
}

/* Which states of the writer make cloisterd refuse calls, if the log is required. */
TEST_WITH(test_when_calls_are_forbidden, set_up_required, tear_down)
{
	static const struct {
		int error;
		size_t queued;
		const char *why; /* NULL: calls are admitted */
	} rows[] = {
		{0, 0, NULL},
		{ENOSPC, 0, "cannot be written"},
		{0, LIMIT_AUDIT_QUEUE_BYTES / 2, "is behind"},
		{0, LIMIT_AUDIT_QUEUE_BYTES / 2 - LIMIT_AUDIT_LINE_BYTES, NULL},
		{0, LIMIT_AUDIT_QUEUE_BYTES / 2 - LIMIT_AUDIT_LINE_BYTES + 1, "is behind"},
	};
	static const struct fake_exchange opens = {OPEN, RESULT("1", "{*}")},
					  refuses_opening = {OPEN,
						  ERROR("1", "-32000", NAMED("BUSY"))},
					  refuses_removal = {REQUEST("1", "workspace.remove",
								     "{\"workspace\":\"w\"}"),
						  ERROR("1", "-32000", NAMED("BUSY"))},
					  reads = {CALL("read_file", "{\"path\":\"f\"}"),
						  RESULT("1", "{\"success\":true,*}")},
					  refuses_reading = {CALL("read_file", "{\"path\":\"f\"}"),
						  RESULT("1",
							  "{\"success\":false,*\"code\":\"BUSY\","
							  "\"message\":\"The audit log *\","
							  "\"retry_after_ms\":*}")};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1001, 1001);
	struct audit_state look;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool forbidden = rows[i].why;

		fake_audit_state.error = rows[i].error;
		fake_audit_state.queued = rows[i].queued;
		assert_int_equal(audit_forbids(audit) != NULL, forbidden);
		if (forbidden)
			assert_non_null(strstr(audit_forbids(audit), rows[i].why));
		fake_client_talk(&client, forbidden ? &refuses_opening : &opens, 1);
		fake_client_talk(&client, forbidden ? &refuses_reading : &reads, 1);
		if (forbidden)
			fake_client_talk(&client, &refuses_removal, 1);
		assert_true(audit_look(audit, &look));
		assert_int_equal(look.error, rows[i].error);
		assert_int_equal(look.queued_bytes, rows[i].queued);
		assert_true(look.required);
	}
	fake_client_close(&client);
}

/* If the log is not required, its failure stops nothing. */
TEST(test_a_log_that_may_fail)
{
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1001, 1001);
	static const struct fake_exchange open = {OPEN, RESULT("1", "{*}")};
	struct audit_state look;

	fake_audit_state.error = ENOSPC;
	fake_audit_full = true;
	assert_null(audit_forbids(audit));
	fake_client_talk(&client, &open, 1);
	assert_true(audit_look(audit, &look));
	assert_int_equal(look.lost, 1);
	assert_false(look.required);
	fake_client_close(&client);
	audit_reopen(audit);
	assert_int_equal(fake_audit_reopened, 1);
}

/* The queue keeps room for ends. A call for which it has none is refused. */
TEST_WITH(test_room_for_the_ends_of_calls, set_up_required, tear_down)
{
	static const struct fake_exchange open = {OPEN, RESULT("1", "{*}")};
	struct fake_client client = fake_client_connect(*state, &agent_endpoint, 1001, 1001);
	char line[256];

	fake_client_talk(&client, &open, 1);
	assert_int_equal(fake_audit_kept, 0);
	for (int i = 1; i <= 3; i++) {
		struct fake_exchange hangs = {line, NULL};

		snprintf(line, sizeof(line),
			REQUEST("%d", "tool.call",
				"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}"),
			i);
		fake_client_talk(&client, &hangs, 1);
		assert_int_equal(fake_audit_kept, (size_t)i * LIMIT_AUDIT_RESERVE_BYTES);
	}
	fake_client_send(&client, REQUEST("9", "tool.cancel", "{\"id\":1}") "\n");
	fake_client_take(&client);
	assert_int_equal(fake_audit_kept, 2 * LIMIT_AUDIT_RESERVE_BYTES);
	fake_client_close(&client);
}
