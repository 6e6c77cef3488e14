/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* A connection of the agent socket: how bytes become lines and answers become bytes, what a client
 * may do to disturb both, and the life of the session. */
#include "common/wake_cost.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/dear_users.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#define PING(id) REQUEST(id, "ping", "{}")
#define PONG(id) RESULT(id, "{}")
#define OPEN     REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}") "\n"
#define OPENED   RESULT("0", "{*}")

static int set_up(void **state)
{
	*state = fake_service_new(NULL);
	return 0;
}

static int tear_down(void **state)
{
	struct fake_service *fake = *state;

	/* When a connection is gone, cloisterd's counters no longer include it. */
	agent_conns_close();
	assert_int_equal(fake->service.connections, 0);
	assert_int_equal(fake->service.control_connections, 0);
	assert_int_equal(fake->service.config->tenants[0]->usage->connections, 0);
	fake_service_run(fake);
	assert_int_equal(fake->service.pending_bytes, 0);
	assert_int_equal(fake->service.unread.bytes, 0);
	fake_service_free(fake);
	return 0;
}

FIXTURE(set_up, tear_down)

static struct fake_client connect_client(void **state)
{
	return fake_client_connect(*state, &agent_endpoint, 1000, 1000);
}

static void answers(struct fake_client *client, const char *bytes, const char *answer)
{
	fake_client_send(client, bytes);
	fake_service_match(client->service, fake_client_take(client), answer);
}

/* The same bytes give the same lines, in whatever pieces they come. */
TEST(test_torn_and_joined_lines)
{
	static const struct {
		const char *bytes, *answer;
	} rows[] = {
		{PING("1") "\n", PONG("1")},
		{"{\"jsonrpc\":\"2.0\",", ""},
		{"\"id\":2,\"method\":\"ping\"}", ""},
		{"\n", PONG("2")},
		{PING("3") "\n" PING("4") "\n", PONG("3") "\n" PONG("4")},
		{PING("5") "\n"
			   "{\"jsonrpc\":",
			PONG("5")},
		{"\"2.0\",\"id\":6,\"method\":\"ping\"}\n", PONG("6")},
		{"\n\n\n", ""},
		{PING("7") "\r\n", PONG("7")},
		{"x\n", ERROR("null", "-32700", "*")},
	};
	struct fake_client client = connect_client(state);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		answers(&client, rows[i].bytes, rows[i].answer);
	fake_client_close(&client);
}

TEST(test_byte_by_byte)
{
	struct fake_client client = connect_client(state);

	for (const char *c = PING("1") "\n"; *c; c++)
		fake_client_send(&client, (char[]){*c, '\0'});
	assert_string_equal(fake_client_take(&client), PONG("1"));
	fake_client_close(&client);
}

/* More lines arrive than cloisterd handles in one turn of the loop. All are answered in order. */
TEST(test_many_lines_at_once)
{
	struct fake_client client = connect_client(state);
	char bytes[200 * 64] = "", expected[200 * 64] = "";
	size_t n = 0, m = 0;

	for (int i = 1; i <= 200; i++) {
		n += (size_t)snprintf(bytes + n, sizeof(bytes) - n, PING("%d") "\n", i);
		m += (size_t)snprintf(
			expected + m, sizeof(expected) - m, "%s" PONG("%d"), i > 1 ? "\n" : "", i);
	}
	fake_client_send(&client, bytes);
	fake_service_run(*state);
	assert_string_equal(fake_client_take(&client), expected);
	fake_client_close(&client);
}

static int64_t reads;

/* Between two readings a slice's time passes. */
static int64_t step(void)
{
	return 1000 * CLOCK_NS_PER_S + ++reads * LIMIT_SLICE_US * CLOCK_NS_PER_US;
}

/* A task beside the connection, whose turn comes after each of its slices. */
struct beside {
	struct loop_share_task task;
	struct loop_share_flow *flow;
	const struct fake_client *client;
	unsigned left;
	bool found[5]; /* so many lines answered */
};

static void look_beside(void *context)
{
	struct beside *beside = context;
	char answers[1024];
	ssize_t n = recv(beside->client->fd, answers, sizeof(answers), MSG_PEEK | MSG_DONTWAIT);
	size_t lines = 0;

	for (ssize_t i = 0; i < n; i++)
		lines += answers[i] == '\n';
	assert_true(lines < ARRAY_SIZE(beside->found));
	beside->found[lines] = true;
	/* A shutdown waits for the lines that wait. */
	if (lines > 0 && lines < 4)
		assert_int_equal(agent_conns_calls(), 1);
	if (--beside->left > 0)
		loop_share_wait(&beside->task, beside->flow);
}

/* A slice ends with a line that took long, and others have their turn before the next line. */
TEST(test_lines_that_take_long)
{
	struct fake_client client = connect_client(state);
	struct fake_service *fake = *state;
	struct beside beside = {.flow = &fake->service.config->tenants[0]->usage->share,
		.client = &client,
		.left = 20};

	fake_client_says(&client, PING("0"), PONG("0"));
	beside.task = (struct loop_share_task){.act = look_beside, .context = &beside};
	loop_share_wait(&beside.task, beside.flow);
	reads = 0;
	clock_replace(step);
	fake_client_send(&client, PING("1") "\n" PING("2") "\n" PING("3") "\n" PING("4") "\n");
	fake_clock_start();
	for (size_t i = 0; i < ARRAY_SIZE(beside.found); i++)
		assert_true(beside.found[i]);
	fake_client_hears(&client, PONG("1") "\n" PONG("2") "\n" PONG("3") "\n" PONG("4"));
	fake_client_close(&client);
}

/* cloisterd discards a line that is too long, answers it once under its id, and serves the next
 * one. */
TEST(test_lines_that_are_too_long)
{
	static const struct {
		const char *begin, *fill, *end, *answer;
	} rows[] = {
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"", "x", "\"}\n",
			ERROR("7", "-32600",
				"\"message\":\"The message is longer than the 65536 *\"")},
		{"{\"method\":\"", "x", "\",\"id\":\"late\"}\n", ERROR("\"late\"", "-32600", "*")},
		{"", "x", "\n", ERROR("null", "-32600", "*")},
	};
	struct fake_client client = fake_client_connect(*state, &control_endpoint, geteuid(), 0);
	static char fill[LIMIT_CONTROL_LINE_BYTES + 1];

	memset(fill, 'x', sizeof(fill) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake_client_send(&client, rows[i].begin);
		fake_client_send(&client, fill);
		fake_client_send(&client, fill);
		answers(&client, rows[i].end, rows[i].answer);
		answers(&client, REQUEST("8", "doctor", "{}") "\n", RESULT("8", "{*}"));
	}
	/* cloisterd also answers such a line if its newline never comes. */
	fake_client_send(&client, fill);
	fake_client_send(&client, "x");
	assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
	fake_service_match(*state, fake_client_take(&client), ERROR("null", "-32600", "*"));
	fake_client_close(&client);
}

static void count_slice(void *context)
{
	struct beside *beside = context;

	if (recv(beside->client->fd, &(char){0}, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
		return;
	beside->left++;
	loop_share_wait(&beside->task, beside->flow);
}

/*
 * A line that is too long is scanned for its id in many slices, between which others have their
 * turn, also if its end and the connection's have come.
 */
TEST(test_others_have_turns_within_a_line_that_is_too_long)
{
	static char line[LIMIT_CONTROL_LINE_BYTES + 1];
	static const char *const ends[] = {"\":1,\"id\":7}\n" PING("8") "\n", "\":1,\"id\":7}"};
	struct fake_service *fake = *state;

	memset(line, 'x', sizeof(line) - 1);
	memcpy(line, "{\"", 2);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		struct fake_client client =
			fake_client_connect(fake, &control_endpoint, geteuid(), 0);
		struct beside beside = {
			.flow = &fake->service.config->tenants[0]->usage->share, .client = &client};

		beside.task = (struct loop_share_task){.act = count_slice, .context = &beside};
		/* All but the last byte that is allowed. */
		fake_client_send(&client, line);
		loop_share_wait(&beside.task, beside.flow);
		reads = 0;
		clock_replace(step);
		fake_client_send(&client, ends[i]);
		if (i == 1)
			assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
		fake_clock_start();
		fake_service_run(fake);
		loop_share_cancel(&beside.task);
		fake_service_match(fake, fake_client_take(&client),
			i == 0 ? ERROR("7", "-32600", "*") "\n" ERROR("8", "-32601", "*")
			       : ERROR("7", "-32600", "*"));
		if (beside.left < 4)
			fail_msg("%u turns of others", beside.left);
		fake_client_close(&client);
	}
}

/* When requests have taken all the memory for requests, each connection still has
 * LIMIT_PENDING_OWN_BYTES, and no more. */
TEST(test_lines_without_room)
{
	struct fake_client client = connect_client(state);
	struct fake_service *fake = *state;
	char *line = malloc(2 * LIMIT_PENDING_OWN_BYTES);

	assert_non_null(line);
	memset(line, ' ', 2 * LIMIT_PENDING_OWN_BYTES);
	memcpy(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", 39);
	memcpy(line + 2 * LIMIT_PENDING_OWN_BYTES - 3, "}\n", 3);
	service_account(&fake->service, NULL, LIMIT_PENDING_TOTAL_BYTES);
	answers(&client, PING("2") "\n", PONG("2"));
	answers(&client, line,
		ERROR("1", "-32000",
			"\"message\":\"*\",\"data\":{\"code\":\"BUSY\",\"retry_after_ms\":*}"));
	assert_int_equal(fake->service.admission.refused[ADMISSION_SHORTAGE], 1);
	service_account(&fake->service, NULL, -(int64_t)LIMIT_PENDING_TOTAL_BYTES);
	answers(&client, line, PONG("1"));
	free(line);
	fake_client_close(&client);
}

/* A client that has closed its writing end gets all answers, and then the end of file. */
TEST(test_the_end_of_input)
{
	struct fake_client client = connect_client(state);

	answers(&client, OPEN, OPENED);
	fake_client_send(&client,
		REQUEST("1", "tool.call",
			"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"slow\"}}") "\n");
	assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
	assert_string_equal(fake_client_take(&client), "");
	assert_false(client.ended);
	assert_int_equal(agent_conns_calls(), 1);
	agent_conns_shut_down();
	fake_service_match(
		*state, fake_client_take(&client), RESULT("1", "{*\"code\":\"SHUTTING_DOWN\"*}"));
	fake_client_take(&client);
	assert_true(client.ended);
	assert_int_equal(agent_conns_calls(), 0);
	assert_int_equal(((struct fake_service *)*state)->idle, 1);
	fake_client_close(&client);
}

/* A client that hangs up ends its calls. */
TEST(test_a_client_that_hangs_up)
{
	struct fake_client client = connect_client(state);
	struct fake_service *fake = *state;

	answers(&client, OPEN, OPENED);
	fake_client_send(&client,
		REQUEST("1", "tool.call",
			"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}") "\n");
	fake_service_run(fake);
	assert_int_equal(fake->service.config->tenants[0]->usage->calls, 1);
	fake_client_close(&client);
	assert_int_equal(fake->service.config->tenants[0]->usage->calls, 0);
	assert_int_equal(fake->idle, 1);
}

/* While a client does not read its answers, cloisterd does not read its requests. Other clients are
 * not affected. When the client reads again, it is served again. */
TEST(test_a_client_that_does_not_read)
{
	static const char request[] = REQUEST("1", "tools.list", "{}") "\n";
	struct fake_client client = connect_client(state), other = connect_client(state);
	struct fake_service *fake = *state;

	while (send(client.fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0)
		fake_service_run(fake);
	assert_int_equal(errno, EAGAIN);
	assert_true(fake->service.unread.bytes > LIMIT_OUTPUT_PENDING_BYTES);
	assert_true(fake->service.unread.bytes < LIMIT_OUTPUT_PENDING_BYTES + 64 * KIB);
	answers(&other, PING("1") "\n", PONG("1"));
	while (strlen(fake_client_take(&client)) > 0)
		;
	assert_int_equal(fake->service.unread.bytes, 0);
	answers(&client, "\n" PING("2") "\n", "*" PONG("2"));
	fake_client_close(&other);
	fake_client_close(&client);
}

/* Descriptors that a client passes are closed by the kernel or by cloisterd. */
TEST(test_descriptors_that_come_along)
{
	struct fake_client client = connect_client(state);
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char line[] = PING("1") "\n";
	struct iovec iov = {line, sizeof(line) - 1};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.header), &ends[1], sizeof(int));
	if (sendmsg(client.fd, &message, MSG_NOSIGNAL) < 0) {
		assert_int_equal(errno, EPERM);
		fake_client_send(&client, PING("1") "\n");
	}
	close(ends[1]);
	assert_string_equal(fake_client_take(&client), PONG("1"));
	/* The last write end is closed, so the pipe is at its end. */
	assert_int_equal(read(ends[0], &(char){0}, 1), 0);
	close(ends[0]);
	fake_client_close(&client);
}

static int64_t dear_ns;

/* Each reading is so much later than the one before that every call between two was dear. */
static int64_t be_dear(void)
{
	return dear_ns += 2 * LIMIT_WAKE_COST_US * CLOCK_NS_PER_US;
}

static int64_t be_cheap(void)
{
	return 1;
}

/* Reading a request, and writing its answer, are calls that wake the client. */
TEST(test_a_client_that_makes_calls_dear)
{
	struct fake_service *fake = *state;
	struct fake_client client = connect_client(state), other = connect_client(state);
	char text[1024] = "";
	ssize_t n = 0;

	wake_cost_replace_clocks(be_dear, be_dear);
	answers(&client, PING("1") "\n", PONG("1"));
	wake_cost_replace_clocks(be_dear, be_cheap); /* it only waits for a CPU */
	for (int i = 0; i < 5; i++)
		answers(&client, PING("2") "\n", PONG("2"));
	assert_int_equal(fake->service.connections, 2);
	wake_cost_replace_clocks(be_dear, be_dear);
	fake_client_send(&client, PING("3") "\n");
	wake_cost_replace_clocks(NULL, NULL);
	assert_int_equal(fake->service.connections, 1);
	assert_int_equal(fake->service.config->tenants[0]->usage->dear_peers, 1);
	assert_true(dear_user_left_ms(1000) > 0);
	/* A thread says why, and closes it. */
	fcntl(client.fd, F_SETFL, 0);
	for (size_t len = 0; (n = read(client.fd, text + len, sizeof(text) - 1 - len)) > 0;)
		len += (size_t)n;
	assert_int_equal(n, 0);
	assert_non_null(strstr(text, "\"BUSY\""));
	assert_non_null(strstr(text, "\"retry_after_ms\""));
	answers(&other, PING("4") "\n", PONG("4"));
	fake_client_close(&client);
	fake_client_close(&other);
}

/* Each state of a connection and what each event does in it (agent_conn.c has the table). The next
 * test has lines in DRAINING. The end of input and the end of the session come only once. */
TEST_WITH(test_each_state_of_a_connection, NULL, NULL)
{
	enum state { OPEN_, DRAINING, ENDED }; /* CLOSING ends in the same turn of the loop */
	enum event { LINE, END_OF_INPUT, SESSION_ENDS, ALL_ANSWERED, HANG_UP };
	static const struct {
		enum state from;
		enum event event;
		bool acted;   /* whether cloisterd acts on a line that had come */
		bool closing; /* whether the connection closes afterwards */
	} rows[] = {
		{OPEN_, LINE, true, false},
		{OPEN_, END_OF_INPUT, false, false},
		{OPEN_, SESSION_ENDS, false, false},
		{OPEN_, ALL_ANSWERED, false, false},
		{OPEN_, HANG_UP, false, true},
		{DRAINING, ALL_ANSWERED, false, true},
		{DRAINING, HANG_UP, false, true},
		{ENDED, LINE, false, false},
		{ENDED, END_OF_INPUT, false, false},
		{ENDED, ALL_ANSWERED, false, true},
		{ENDED, HANG_UP, false, true},
	};
	static const char slow[] = REQUEST("1", "tool.call",
		"{\"tool\":\"read_file\",\"arguments\":{\"path\":\"slow\"}}") "\n";
	static const char gone[] = "[tenant other]\n";

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fake_service *fake = fake_service_new("[tenant one]\nusers = 1000\n"
							     "roots = @/root\n");
		struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1000, 1000);
		const char *answer, *got;

		(void)state;
		/* A call keeps the connection open. */
		answers(&client, OPEN, OPENED);
		answers(&client, slow, "");
		if (rows[i].from == DRAINING)
			assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
		if (rows[i].from == ENDED) {
			fake_service_reconfigure(fake, gone);
			/* cloisterd drops the lines that came with the last one. */
			fake_client_send(&client, rows[i].event == LINE
							  ? PING("2") "\n" PING("9") "\n"
							  : PING("2") "\n");
			got = fake_client_take(&client);
			assert_non_null(strstr(got, "FORBIDDEN"));
			assert_null(strchr(got, '\n'));
		}
		if (rows[i].event == LINE && rows[i].from == OPEN_)
			fake_client_send(&client, PING("9") "\n");
		if (rows[i].event == END_OF_INPUT)
			assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
		if (rows[i].event == SESSION_ENDS && rows[i].from == OPEN_) {
			fake_service_reconfigure(fake, gone);
			answers(&client, PING("2") "\n", "*FORBIDDEN*");
		}
		if (rows[i].event == ALL_ANSWERED)
			agent_conns_shut_down();
		if (rows[i].event == HANG_UP)
			fake_client_close(&client);
		fake_service_pass(fake, 200);
		if ((fake->service.connections == 0) != rows[i].closing)
			fail_msg("row %zu: %zu connections", i, fake->service.connections);
		answer = client.got ? fake_client_take(&client) : "";
		if ((strstr(answer, PONG("9")) != NULL) != rows[i].acted)
			fail_msg("row %zu: %s", i, answer);
		fake_client_close(&client);
		fake_service_free(fake);
	}
}

/*
 * Lines wait behind the end of input. There is room for one call at a time, so the lines wait. The
 * other connection's slice comes first, so cloisterd reads the end before it handles the lines.
 */
TEST_WITH(test_lines_that_wait_behind_the_end, NULL, NULL)
{
#define SLOW(id)                                                                               \
	REQUEST(id, "tool.call", "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"slow\"}}") \
	"\n"
	static const struct {
		const char *config; /* NULL: not reloaded */
		const char *answer; /* to the lines that waited */
	} rows[] = {
		{NULL, PONG("3") "\n" PONG("4")},
		/* The first line ends the session, and the second is dropped. */
		{"[tenant other]\n", "{*FORBIDDEN*}"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fake_service *fake = fake_service_new("[tenant one]\nusers = 1000\n"
							     "roots = @/root\n");
		struct fake_client first = fake_client_connect(fake, &agent_endpoint, 1000, 1000);
		struct fake_client client = fake_client_connect(fake, &agent_endpoint, 1000, 1000);
		const uint64_t *unread = &fake->service.config->tenants[0]->usage->unread_bytes;
		struct unread_account hog;
		int64_t of_call;
		const char *got;

		(void)state;
		answers(&first, OPEN, OPENED);
		answers(&client, OPEN, OPENED);
		unread_open(&hog, &fake->service.unread);
		unread_move(&hog, fake->service.config->tenants[0]->usage);
		/* A tenant may use half of the total, and a connection half of what its tenant has
		 * left. */
		unread_count(&hog, LIMIT_UNREAD_BYTES / 2 - 2 * LIMIT_UNREAD_LINE_BYTES -
					   LIMIT_UNREAD_CALL_BYTES / 2);
		answers(&first, SLOW("1") PING("2") "\n", "");
		of_call = (int64_t)(*unread - hog.bytes);
		unread_count(&hog, -of_call);
		answers(&client, SLOW("1") SLOW("2") PING("3") "\n" PING("4") "\n", "");
		assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
		/* This leaves room for the second call. */
		unread_count(&hog, -2 * of_call);
		fake_service_match(fake, fake_client_take(&first), PONG("2"));
		fake_service_match(fake, fake_client_take(&client), "");
		assert_int_equal(*unread - hog.bytes, 3 * of_call);
		if (rows[i].config)
			fake_service_reconfigure(fake, rows[i].config);
		unread_close(&hog);
		got = fake_client_take(&client);
		fake_service_match(fake, got, rows[i].answer);
		assert_true((strchr(got, '\n') != NULL) == !rows[i].config);
		assert_int_equal(fake->service.connections, 2);
		agent_conns_shut_down();
		fake_service_pass(fake, 200);
		assert_int_equal(fake->service.connections, 1);
		fake_client_close(&first);
		fake_client_close(&client);
		fake_service_free(fake);
	}
}

TEST(test_connections_are_counted_by_user)
{
	struct fake_client one = connect_client(state), two = connect_client(state);
	struct fake_service *fake = *state;

	assert_int_equal(agent_conns_of_user(&agent_endpoint, 1000), 2);
	assert_int_equal(agent_conns_of_user(&agent_endpoint, 1001), 0);
	assert_int_equal(agent_conns_of_user(&control_endpoint, 1000), 0);
	assert_int_equal(fake->service.connections, 2);
	assert_int_equal(fake->service.config->tenants[0]->usage->connections, 2);
	/* A connection that relays MCP still counts as an agent's. */
	fake_client_send(&one,
		REQUEST("0", "workspace.open", "{\"root\":\"@/root\",\"protocol\":\"mcp\"}") "\n");
	fake_client_take(&one);
	assert_int_equal(agent_conns_of_user(&agent_endpoint, 1000), 2);
	fake_client_close(&one);
	assert_int_equal(agent_conns_of_user(&agent_endpoint, 1000), 1);
	fake_client_close(&two);
}

/* The calls of a client that does not read its answers begin when it does. */
TEST(test_calls_wait_for_room)
{
	struct fake_client client = connect_client(state);
	struct fake_service *fake = *state;
	struct unread_account hog;

	answers(&client, OPEN, OPENED);
	unread_open(&hog, &fake->service.unread);
	unread_move(&hog, fake->service.config->tenants[0]->usage);
	unread_count(&hog, LIMIT_UNREAD_BYTES);
	fake_client_send(
		&client, REQUEST("1", "tool.call",
				 "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"f\"}}") "\n");
	assert_string_equal(fake_client_take(&client), "");
	unread_close(&hog);
	fake_service_match(*state, fake_client_take(&client), RESULT("1", "{\"success\":true,*}"));
	fake_client_close(&client);
}
