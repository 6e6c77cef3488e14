/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* The sessions of the agent socket, from a client's line to its answer. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/session/session_state.h"
#include "supervisor/session/session_use.h"
#include "supervisor/session/session_wait.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <arpa/inet.h>

#define ALICE 1001
#define BOB   1002

static const char config[] = "[cloister]\n"
			     "[tenant one]\n"
			     "users = 1001\n"
			     "roots = @/root\n"
			     "managed = yes\n"
			     "sessions = 3\n"
			     "sessions_per_workspace = 2\n"
			     "[tenant two]\n"
			     "users = 1002\n"
			     "managed = yes\n"
			     "sessions = 0\n";

static char id[SESSION_ID_BYTES]; /* of the session that was started last */

static int set_up(void **state)
{
	*state = fake_service_new(config);
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

static void note_id(void *context, const struct session *session)
{
	struct session_info info;

	(void)context;
	session_get_info(session, &info);
	snprintf(id, sizeof(id), "%s", info.id);
}

/* In a line to a client and from it, '#' stands for the id of the session. */
static void put_id(const char *text, char *ret, size_t size)
{
	size_t len = 0;

	for (; *text; text++)
		len += (size_t)snprintf(ret + len, size - len, *text == '#' ? "%s" : "%.1s",
			*text == '#' ? id : text);
	assert_true(len < size);
}

static void talk(struct fake_client *client, const char *says, const char *answer)
{
	char line[2048], wanted[2048];

	put_id(says ? says : "", line, sizeof(line));
	put_id(answer ? answer : "", wanted, sizeof(wanted));
	if (!says) {
		fake_service_run(client->service);
		fake_service_match(client->service, fake_client_take(client), wanted);
		return;
	}
	fake_client_talk(client, &(struct fake_exchange){line, answer ? wanted : NULL}, 1);
}

#define START(params)   REQUEST("1", "session.start", params)
#define READ(params)    REQUEST("2", "session.read", "{\"session\":\"#\"" params "}")
#define WRITE(params)   REQUEST("3", "session.write", "{\"session\":\"#\"," params "}")
#define SIGNAL(params)  REQUEST("4", "session.signal", "{\"session\":\"#\"," params "}")
#define END(params)     REQUEST("5", "session.end", "{\"session\":\"#\"" params "}")
#define RESIZE(params)  REQUEST("7", "session.resize", "{\"session\":\"#\"," params "}")
#define LIST            REQUEST("6", "session.list", "{}")
#define STARTED         RESULT("1", "{\"session\":\"*\",*}")
#define WRONG(id, word) ERROR(id, "-32602", "\"message\":\"*" word "*")
#define CHUNK(at, data) "{\"at\":" at ",\"stream\":\"stdout\",\"data\":\"" data "\"}"

/* From now on its output is read, and the lines that follow have its id. */
static void has_started(struct fake_client *client)
{
	session_foreach(note_id, NULL);
	fake_service_pass(client->service, 3);
}

static void start(struct fake_client *client, const char *params)
{
	talk(client, params, STARTED);
	has_started(client);
}

TEST(test_a_life)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	talk(&client, LIST, RESULT("6", "{\"sessions\":[]}"));
	talk(&client, START("{\"command\":\"cat\",\"name\":\"copy\",\"stdin\":true}"),
		RESULT("1", "{\"session\":\"*\",\"name\":\"copy\",\"workspace\":\"w\","
			    "\"pty\":null,\"lifetime_ms\":28800000,\"output_bytes\":1048576}"));
	has_started(&client);
	talk(&client, LIST,
		RESULT("6", "{\"sessions\":[{\"session\":\"#\",\"name\":\"copy\",\"workspace\":"
			    "\"w\",\"tenant\":\"one\",\"state\":\"running\",\"command\":\"cat\",*"
			    "\"kept_from\":0,\"next\":0,\"ports\":null}]}"));
	talk(&client, WRITE("\"at\":0,\"data\":\"one\\n\""),
		RESULT("3", "{\"taken\":4,\"next\":4,\"closed\":false}"));
	talk(&client, WRITE("\"at\":0,\"data\":\"one\\n\""),
		RESULT("3", "{\"taken\":4,\"next\":4,\"closed\":false}"));
	talk(&client, WRITE("\"at\":5,\"data\":\"x\""),
		ERROR("3", "-32602",
			"\"message\":\"at is beyond *\",\"data\":{\"code\":"
			"\"INVALID_ARGUMENTS\",\"next\":4}"));
	talk(&client, READ(""), RESULT("2", "{*\"chunks\":[" CHUNK("0", "one\\n") "],*}"));
	talk(&client, READ(",\"after\":4"), RESULT("2", "{*\"chunks\":[],*\"next\":4*}"));
	talk(&client, READ(",\"after\":5"),
		ERROR("2", "-32602", "*\"data\":{\"code\":\"INVALID_ARGUMENTS\",\"next\":4}"));
	talk(&client, END(",\"grace_ms\":0"), RESULT("5", "{*\"ended_by\":\"cancel\"*}"));
	talk(&client, END(""), RESULT("5", "{*\"ended_by\":\"cancel\"*}"));
	talk(&client, READ(",\"after\":4"), RESULT("2", "{*\"state\":\"ended\"*\"end\":{*}*}"));
	talk(&client, SIGNAL("\"signal\":\"INT\""), RESULT("4", "{\"sent\":false}"));
	talk(&client, WRITE("\"data\":\"x\""),
		RESULT("3", "{\"taken\":0,\"next\":4,\"closed\":true}"));
	/* It is forgotten. */
	fake_service_pass(*state, 10L * 60 * 1000 + 1);
	talk(&client, READ(""), ERROR("2", "-32000", NAMED("SESSION_NOT_FOUND")));
	fake_client_close(&client);
}

TEST(test_waiting)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	start(&client, START("{\"command\":\"hang\",\"output_bytes\":1024}"));
	talk(&client, READ(",\"wait_ms\":1000"), NULL);
	fake_workers_write("first");
	talk(&client, NULL, RESULT("2", "{*\"chunks\":[" CHUNK("0", "first") "],*}"));
	talk(&client, READ(",\"after\":5,\"wait_ms\":1000,\"until\":[{\"contains\":\"second\"}]"),
		NULL);
	fake_workers_write("sec");
	fake_service_run(*state);
	fake_workers_write("ond");
	talk(&client, NULL, RESULT("2", "{*\"chunks\":[" CHUNK("5", "second") "],*\"met\":0*}"));
	talk(&client, READ(",\"wait_ms\":9000,\"until\":[{\"exit\":true},{\"quiet_ms\":300}]"),
		NULL);
	fake_service_pass(*state, 301);
	talk(&client, NULL, RESULT("2", "{*\"met\":1*}"));
	talk(&client, READ(",\"wait_ms\":500,\"until\":[{\"contains\":\"no\"}]"), NULL);
	fake_service_pass(*state, 501);
	talk(&client, NULL, RESULT("2", "{*\"met\":null*}"));
	talk(&client, READ(",\"wait_ms\":9000,\"encoding\":\"base64\",\"until\":[{\"exit\":true}]"),
		NULL);
	talk(&client, SIGNAL("\"signal\":\"TERM\",\"to\":\"all\""), "{*\"id\":*}\n{*\"id\":*}");
	/* A client that leaves while it waits. */
	start(&client, START("{\"command\":\"hang\"}"));
	talk(&client, READ(",\"wait_ms\":9000"), NULL);
	fake_client_close(&client);
}

/* A server of this machine stands in for the command's: the cell has the test's own network. */
static int make_server(uint16_t *ret_port)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(name);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
	*ret_port = ntohs(name.sin_port);
	return fd;
}

TEST(test_a_port)
{
	struct fake_service *fake = *state;
	struct fake_client client;
	uint16_t port;
	int server = make_server(&port);
	char line[256];

	fake_spawner_tell_ports(fake->spawner);
	client = fake_client_open(fake, &agent_endpoint, ALICE, "w");
	start(&client, START("{\"command\":\"hang\"}"));
	snprintf(line, sizeof(line),
		READ(",\"wait_ms\":9000,\"until\":[{\"exit\":true},{\"port\":%u}]"), port);
	talk(&client, line, NULL);
	fake_service_pass(fake, 1000);
	assert_string_equal(fake_client_take(&client), "");
	assert_int_equal(listen(server, 1), 0);
	/* It is looked at again in its time, and not before. */
	assert_string_equal(fake_client_take(&client), "");
	fake_service_pass(fake, LIMIT_PORT_ASK_MS);
	fake_client_hears(&client, RESULT("2", "{*\"met\":1,\"state\":\"running\"}"));
	/* One that listens is told at once. */
	talk(&client, line, RESULT("2", "{*\"met\":1*}"));
	close(server);
	fake_service_pass(fake, LIMIT_PORT_ASK_MS);
	talk(&client, line, NULL);
	fake_service_pass(fake, 9001);
	fake_client_hears(&client, RESULT("2", "{*\"met\":null*}"));
	/* The end of a session ends the waiting for its ports. */
	talk(&client, line, NULL);
	talk(&client, SIGNAL("\"signal\":\"TERM\""), "{*\"id\":*}\n{*\"id\":*}");
	fake_service_pass(fake, LIMIT_PORT_ASK_MS);
	talk(&client, line, RESULT("2", "{*\"met\":0,\"state\":\"ended\"*}"));
	talk(&client, LIST, RESULT("6", "{*\"ports\":[]}]}"));
	fake_client_close(&client);
}

/* Nobody would ever learn of a port: the client is told so, and what to do in place of it. */
TEST(test_a_host_that_tells_no_ports)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	start(&client, START("{\"command\":\"hang\"}"));
	talk(&client, READ(",\"wait_ms\":9000,\"until\":[{\"port\":3000}]"),
		ERROR("2", "-32000", NAMED("EXECUTION_ERROR")));
	talk(&client, LIST, RESULT("6", "{*\"ports\":null}]}"));
	fake_client_close(&client);
}

TEST(test_limits_and_others)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), second,
			   other;

	start(&client, START("{\"command\":\"hang\"}"));
	start(&client, START("{\"command\":\"hang\"}"));
	talk(&client, START("{\"command\":\"hang\"}"), ERROR("1", "-32000", NAMED("BUSY")));
	second = fake_client_open(*state, &agent_endpoint, ALICE, "v");
	start(&second, START("{\"command\":\"hang\"}"));
	talk(&second, START("{\"command\":\"hang\"}"), ERROR("1", "-32000", NAMED("BUSY")));
	talk(&second, START("{\"command\":\"rm -rf /\"}"),
		ERROR("1", "-32000", NAMED("COMMAND_BLOCKED")));
	/* Another connection of the tenant may use it, another tenant may not. */
	talk(&client, READ(""), RESULT("2", "{*}"));
	other = fake_client_open(*state, &agent_endpoint, BOB, "w");
	talk(&other, READ(""), ERROR("2", "-32000", NAMED("SESSION_NOT_FOUND")));
	talk(&other, WRITE("\"data\":\"x\""), ERROR("3", "-32000", NAMED("SESSION_NOT_FOUND")));
	talk(&other, SIGNAL("\"signal\":\"KILL\""),
		ERROR("4", "-32000", NAMED("SESSION_NOT_FOUND")));
	talk(&other, END(""), ERROR("5", "-32000", NAMED("SESSION_NOT_FOUND")));
	talk(&other, LIST, RESULT("6", "{\"sessions\":[]}"));
	talk(&other, START("{\"command\":\"hang\"}"), ERROR("1", "-32000", NAMED("FORBIDDEN")));
	fake_client_close(&client);
	fake_client_close(&second);
	/* Nobody has the workspaces open: sessions end in their time. */
	fake_service_pass(*state, 15L * 60 * 1000 + 1);
	assert_int_equal(session_count(NULL), 0);
	fake_client_close(&other);
}

TEST(test_what_ends_them)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	start(&client, START("{\"command\":\"hang\",\"lifetime_ms\":5000}"));
	fake_service_pass(*state, 5001);
	talk(&client, READ(""), RESULT("2", "{*\"ended_by\":\"lifetime\"*}"));
	start(&client, START("{\"command\":\"hang\"}"));
	talk(&client, REQUEST("7", "workspace.remove", "{\"workspace\":\"w\"}"),
		RESULT("7", "{*}"));
	talk(&client, READ(""), ERROR("2", "-32000", NAMED("SESSION_NOT_FOUND")));
	talk(&client, REQUEST("0", "workspace.open", "{\"workspace\":\"v\"}"), RESULT("0", "{*}"));
	start(&client, START("{\"command\":\"hang\"}"));
	fake_service_reconfigure(*state, "[cloister]\n[tenant two]\nusers = 1002\nmanaged = yes\n");
	session_reload(((struct fake_service *)*state)->service.config);
	fake_service_run(*state);
	assert_int_equal(session_count(NULL), 0);
	fake_client_close(&client);
}

#define YIELDS(command)                                                           \
	REQUEST("8", "tool.call",                                                 \
		"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"" command \
		"\"},\"options\":{\"yield_ms\":50}}")
#define RUNS(rest)                                                                    \
	RESULT("8", "{\"success\":true,*\"exit_code\":null,*\"ended_by\":\"yield\",*" \
		    "\"state\":\"running\",\"session\":\"#\"," rest "}")

/* A call that is not over in its time is answered, and is a session from then on. */
TEST(test_calls_go_on)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	/* One that is over before is none, and leaves its place. */
	for (int i = 0; i < 5; i++)
		talk(&client, YIELDS("echo hello"),
			RESULT("8", "{*\"stdout\":\"hello\\n\",*\"ended_by\":\"exit\",*}"));
	talk(&client, LIST, RESULT("6", "{\"sessions\":[]}"));
	talk(&client, YIELDS("say one|two"), NULL);
	fake_service_pass(*state, 3);
	talk(&client, LIST, RESULT("6", "{\"sessions\":[]}"));
	fake_service_pass(*state, 50);
	session_foreach(note_id, NULL);
	talk(&client, NULL, RUNS("\"next\":7,*"));
	fake_workers_write("three");
	fake_service_run(*state);
	talk(&client, READ(""), RESULT("2", "{*\"chunks\":[" CHUNK("0", "one\\ntwothree") "],*}"));
	talk(&client, READ(",\"after\":7"),
		RESULT("2", "{*\"chunks\":[" CHUNK("7", "three") "],*}"));
	talk(&client, WRITE("\"data\":\"x\""),
		RESULT("3", "{\"taken\":0,\"next\":0,\"closed\":true}"));
	/* A second one takes the last place of the workspace from its beginning on. */
	talk(&client, YIELDS("hang"), NULL);
	talk(&client, START("{\"command\":\"hang\"}"), ERROR("1", "-32000", NAMED("BUSY")));
	other = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	talk(&other, YIELDS("echo hello"), RESULT("8", "{\"success\":false,*\"code\":\"BUSY\"*}"));
	talk(&client, REQUEST("9", "tool.cancel", "{\"id\":8}"), "{*\"ended_by\":\"cancel\"*}");
	talk(&other, YIELDS("echo hello"), RESULT("8", "{*\"ended_by\":\"exit\",*}"));
	fake_client_close(&other);
	/* Its client may leave. */
	fake_client_close(&client);
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	talk(&client, END(""), RESULT("5", "{*\"ended_by\":\"cancel\"*}"));
	fake_client_close(&client);
	other = fake_client_open(*state, &agent_endpoint, BOB, "w");
	talk(&other, YIELDS("echo hello"),
		RESULT("8", "{\"success\":false,*\"code\":\"FORBIDDEN\"*}"));
	fake_client_close(&other);
}

/* What the configuration takes away is not given when its time comes. */
TEST(test_a_reload_breaks_promises)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	talk(&client, YIELDS("hang"), NULL);
	fake_service_reconfigure(*state, "[cloister]\n[tenant two]\nusers = 1002\nmanaged = yes\n");
	session_reload(((struct fake_service *)*state)->service.config);
	fake_service_pass(*state, 60);
	assert_int_equal(session_count(NULL), 0);
	fake_service_pass(*state, 30001);
	talk(&client, NULL, RESULT("8", "{*\"ended_by\":\"timeout\"*}"));
	fake_client_close(&client);
}

#define KEYED(rest) START("{\"key\":\"k\",\"command\":\"hang\"" rest "}")

TEST(test_a_repeated_start)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	start(&client, KEYED(""));
	talk(&client, KEYED(""), RESULT("1", "{\"session\":\"#\",*\"replayed\":true}"));
	fake_client_close(&client);
	client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	talk(&client, KEYED(""), RESULT("1", "{\"session\":\"#\",*\"replayed\":true}"));
	talk(&client, KEYED(",\"stdin\":true"), ERROR("1", "-32000", NAMED("KEY_CONFLICT")));
	talk(&client, KEYED(",\"env\":{\"A\":\"1\"}"), ERROR("1", "-32000", NAMED("KEY_CONFLICT")));
	talk(&client, START("{\"key\":\"k\",\"command\":\"other\"}"),
		ERROR("1", "-32000", NAMED("KEY_CONFLICT")));
	talk(&client, START("{\"key\":\"k k\",\"command\":\"hang\"}"), WRONG("1", "key"));
	/* The input of a pipe is none of a terminal. */
	talk(&client, START("{\"key\":\"t\",\"command\":\"hang\",\"stdin\":true}"), STARTED);
	talk(&client, START("{\"key\":\"t\",\"command\":\"hang\",\"pty\":{\"rows\":9,\"cols\":9}}"),
		ERROR("1", "-32000", NAMED("KEY_CONFLICT")));
	assert_int_equal(session_count(NULL), 2);
	/* The key of another workspace is another key. */
	other = fake_client_open(*state, &agent_endpoint, ALICE, "v");
	start(&other, KEYED(""));
	assert_int_equal(session_count(NULL), 3);
	talk(&other, END(""), RESULT("5", "{*}"));
	/* An ended one is still known by it. */
	talk(&other, KEYED(""), RESULT("1", "{\"session\":\"#\",*\"replayed\":true}"));
	fake_client_close(&other);
	fake_client_close(&client);
}

#define ATTACH(params) REQUEST("7", "session.attach", "{\"session\":\"#\"" params "}")
#define DETACH         REQUEST("8", "session.detach", "{\"session\":\"#\"}")
#define SENT(at, data)                 \
	NOTIFICATION("session.output", \
		"{\"session\":\"#\",\"at\":" at ",\"stream\":\"stdout\",\"data\":\"" data "\"}")
#define SENT_ALL(next, end) \
	NOTIFICATION("session.ended", "{\"session\":\"#\",\"next\":" next "," end "}")

TEST(test_attached)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	start(&client, START("{\"command\":\"say one|\"}"));
	talk(&client, ATTACH(",\"after\":5"), ERROR("7", "-32602", "*\"next\":4}"));
	talk(&client, ATTACH(""),
		RESULT("7", "{\"state\":\"running\",\"next\":4}") "\n" SENT("0", "one\\n"));
	talk(&client, ATTACH(""), WRONG("7", "attached"));
	fake_workers_write("two");
	talk(&client, NULL, SENT("4", "two"));
	/* Two clients are sent the same, each from its cursor on. */
	other = fake_client_open(*state, &agent_endpoint, ALICE, "v");
	talk(&other, ATTACH(",\"after\":7,\"encoding\":\"base64\""),
		RESULT("7", "{\"state\":\"running\",\"next\":7}"));
	fake_workers_write("3");
	talk(&client, NULL, SENT("7", "3"));
	talk(&other, NULL, SENT("7", "Mw=="));
	talk(&other, DETACH, RESULT("8", "{\"detached\":true,\"next\":8}"));
	talk(&other, DETACH, RESULT("8", "{\"detached\":false}"));
	fake_client_close(&other);
	other = fake_client_open(*state, &agent_endpoint, BOB, "w");
	talk(&other, ATTACH(""), ERROR("7", "-32000", NAMED("SESSION_NOT_FOUND")));
	talk(&other, DETACH, ERROR("8", "-32000", NAMED("SESSION_NOT_FOUND")));
	fake_client_close(&other);
	talk(&client, SIGNAL("\"signal\":\"TERM\""),
		"{*\"sent\":true*}\n" SENT_ALL("8", "\"lost_bytes\":0,\"end\":{*}"));
	/* One that has ended: all of it, and the end. */
	talk(&client, ATTACH(""),
		RESULT("7", "{\"state\":\"ended\",\"next\":8}") "\n" SENT(
			"0", "one\\ntwo3") "\n" SENT_ALL("8", "\"lost_bytes\":0,\"end\":{*}"));
	talk(&client, DETACH, RESULT("8", "{\"detached\":false}"));
	fake_client_close(&client);
}

/* A client that reads gets its output, also if the tenant's others leave no room. */
TEST(test_attached_without_room)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	struct service *service = *state;
	struct unread_account others;

	start(&client, START("{\"command\":\"hang\"}"));
	talk(&client, ATTACH(""), RESULT("7", "{\"state\":\"running\",\"next\":0}"));
	assert_string_equal(service->config->tenants[0]->name, "one");
	unread_open(&others, &service->unread);
	unread_move(&others, service->config->tenants[0]->usage);
	unread_count(&others, LIMIT_UNREAD_BYTES);
	assert_int_equal(unread_room(&others), 0);
	fake_workers_write("one");
	talk(&client, NULL, SENT("0", "one"));
	unread_count(&others, -(int64_t)LIMIT_UNREAD_BYTES);
	unread_close(&others);
	fake_client_close(&client);
}

/* Waiting is use, and ends: also a session that nobody has opened goes on for one who listens. */
TEST(test_those_who_wait_use_it)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w"), other;

	start(&client, START("{\"command\":\"hang\"}"));
	other = fake_client_open(*state, &agent_endpoint, ALICE, "v");
	fake_client_close(&client);
	talk(&other, ATTACH(""), RESULT("7", "{*}"));
	for (int i = 0; i < 4; i++)
		fake_service_pass(*state, 10L * 60 * 1000);
	assert_int_equal(session_count(NULL), 1);
	talk(&other, DETACH, RESULT("8", "{*}"));
	fake_service_pass(*state, 14L * 60 * 1000);
	assert_int_equal(session_count(NULL), 1);
	fake_service_pass(*state, 60L * 1000 + 1);
	assert_int_equal(session_count(NULL), 0);
	fake_client_close(&other);
}

/* Those who wait for sessions do not keep workspaces from being opened. */
TEST(test_many_wait)
{
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	start(&client, START("{\"command\":\"hang\"}"));
	for (int i = 0; i < LIMIT_SESSION_WAITERS; i++)
		talk(&client, READ(",\"wait_ms\":300000"), NULL);
	talk(&client, READ(",\"wait_ms\":300000"), ERROR("2", "-32000", NAMED("BUSY")));
	talk(&client, ATTACH(""), ERROR("7", "-32000", NAMED("BUSY")));
	talk(&client, REQUEST("0", "workspace.open", "{\"workspace\":\"v\"}"), RESULT("0", "{*}"));
	fake_client_close(&client);
}

/* Output is searched for all of them, but not for all in the slice in which it is read. */
TEST(test_many_search)
{
	static const struct text found = TEXT_LITERAL("found");
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");
	struct session *session;

	start(&client, START("{\"command\":\"hang\"}"));
	for (int i = 0; i < LIMIT_SESSION_WAITERS; i++)
		talk(&client, READ(",\"wait_ms\":300000,\"until\":[{\"contains\":\"und\"}]"), NULL);
	session = session_find(text_from(id));
	output_ring_append(&session->ring, COMMAND_STREAM_STDOUT, found);
	session_tell_output(&session->waiting, COMMAND_STREAM_STDOUT, found);
	assert_int_equal(session->waiting.count, LIMIT_SESSION_WAITERS - 1);
	fake_service_run(client.service);
	assert_int_equal(session->waiting.count, 0);
	fake_client_close(&client);
}

TEST(test_mistakes_are_named)
{
	static const struct {
		const char *says, *answer;
	} mistakes[] = {
		{START("{}"), WRONG("1", "command")},
		{START("{\"command\":\"x\",\"name\":\"\"}"), WRONG("1", "name")},
		{START("{\"command\":\"x\",\"stdin\":1}"), WRONG("1", "stdin")},
		{START("{\"command\":\"x\",\"output_bytes\":1}"), WRONG("1", "output_bytes")},
		{START("{\"command\":\"x\",\"lifetime_ms\":0}"), WRONG("1", "lifetime_ms")},
		{START("{\"command\":\"x\",\"env\":{\"A B\":\"c\"}}"), WRONG("1", "env")},
		{START("{\"command\":\"x\",\"workspace\":1}"), WRONG("1", "workspace")},
		{START("{\"command\":\"x\",\"workspace\":\"no\"}"),
			ERROR("1", "-32000", NAMED("WORKSPACE_NOT_FOUND"))},
		{REQUEST("2", "session.read", "{}"), WRONG("2", "session")},
		{READ(",\"after\":-1"), WRONG("2", "after")},
		{READ(",\"max_bytes\":1048577"), WRONG("2", "max_bytes")},
		{READ(",\"wait_ms\":300001"), WRONG("2", "wait_ms")},
		{READ(",\"encoding\":\"latin-1\""), WRONG("2", "encoding")},
		{READ(",\"until\":{}"), WRONG("2", "until")},
		{READ(",\"until\":[{\"exit\":true,\"quiet_ms\":1}]"), WRONG("2", "until")},
		{READ(",\"until\":[{\"contains\":\"\"}]"), WRONG("2", "contains")},
		{READ(",\"until\":[{\"quiet_ms\":0}]"), WRONG("2", "quiet_ms")},
		{READ(",\"until\":[{\"port\":1023}]"), WRONG("2", "port")},
		{READ(",\"until\":[{\"port\":65536}]"), WRONG("2", "port")},
		{READ(",\"until\":[{\"port\":\"3000\"}]"), WRONG("2", "port")},
		{READ(",\"until\":[{\"port\":null}]"), WRONG("2", "port")},
		{WRITE("\"at\":-1"), WRONG("3", "at")},
		{WRITE("\"data\":\"?\",\"encoding\":\"base64\""), WRONG("3", "data")},
		{SIGNAL("\"signal\":\"STOP\""), WRONG("4", "signal")},
		{SIGNAL("\"signal\":\"INT\",\"to\":\"parent\""), WRONG("4", "to")},
		{START("{\"command\":\"x\",\"pty\":true}"), WRONG("1", "pty")},
		{START("{\"command\":\"x\",\"pty\":{\"rows\":24}}"), WRONG("1", "pty")},
		{START("{\"command\":\"x\",\"pty\":{\"rows\":0,\"cols\":80}}"), WRONG("1", "pty")},
		{START("{\"command\":\"x\",\"pty\":{\"rows\":24,\"cols\":4097}}"),
			WRONG("1", "pty")},
		{START("{\"command\":\"x\",\"pty\":{\"rows\":24,\"cols\":80,\"x\":1}}"),
			WRONG("1", "pty")},
		{START("{\"command\":\"x\",\"stdin\":false,\"pty\":{\"rows\":24,\"cols\":80}}"),
			WRONG("1", "stdin")},
		{RESIZE("\"rows\":24"), WRONG("7", "cols")},
		{RESIZE("\"rows\":24,\"cols\":-1"), WRONG("7", "cols")},
		{RESIZE("\"rows\":24,\"cols\":80"),
			ERROR("7", "-32000", NAMED("SESSION_NOT_FOUND"))},
		{END(",\"grace_ms\":60001"), WRONG("5", "grace_ms")},
		{REQUEST("7", "session.attach", "{\"session\":\"#\",\"after\":-1}"),
			WRONG("7", "after")},
		{REQUEST("7", "session.attach", "{\"session\":\"#\",\"encoding\":\"no\"}"),
			WRONG("7", "encoding")},
		{REQUEST("8", "tool.call",
			 "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"x\"},\"options\":"
			 "{\"yield_ms\":1,\"stdin_stream\":true}}"),
			WRONG("8", "yield_ms")},
		{NOTIFICATION("session.start", "{\"command\":\"hang\"}"), NULL},
		{NOTIFICATION("session.end", "{\"session\":\"#\"}"), NULL},
	};
	struct fake_client client = fake_client_open(*state, &agent_endpoint, ALICE, "w");

	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++)
		talk(&client, mistakes[i].says, mistakes[i].answer);
	assert_int_equal(session_count(NULL), 0);
	fake_client_close(&client);
}
