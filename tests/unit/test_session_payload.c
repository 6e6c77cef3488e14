/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process */
// SPDX-License-Identifier: Apache-2.0
/* Whatever becomes of a line of tool.input, its bytes are not read as a request. */
#include "supervisor/connection/client_payload.h"

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/call/service.h"
#include "supervisor/connection/agent_conn.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#define PAYLOAD  (2 * LIMIT_PENDING_OWN_BYTES)
#define PING(id) REQUEST(id, "ping", "{}")
#define PONG(id) RESULT(id, "{}")
/* A payload that would be answered if it were read as lines. */
#define HOSTILE PING("9") "\n" PING("10") "\n"
#define CAT                                                                      \
	REQUEST("1", "tool.call",                                                \
		"{\"tool\":\"run_command\",\"arguments\":{\"command\":\"cat\"}," \
		"\"options\":{\"stdin_stream\":true}}")
#define BUSY_ERROR(id) ERROR(id, "-32000", NAMED("BUSY"))

static struct fake_client client;

static int set_up(void **state)
{
	*state = fake_service_new(NULL);
	client = fake_client_connect(*state, &agent_endpoint, 1000, 1000);
	fake_client_says(&client, REQUEST("0", "workspace.open", "{\"root\":\"@/root\"}"),
		RESULT("0", "{*}"));
	fake_client_says(&client, CAT, NULL);
	return 0;
}

static int tear_down(void **state)
{
	struct fake_service *fake = *state;

	fake_client_close(&client);
	agent_conns_close();
	fake_service_run(fake);
	assert_int_equal(fake->service.pending_bytes, 0);
	fake_service_free(fake);
	return 0;
}

FIXTURE(set_up, tear_down)

/* Sends a line with @params, in which "%zu" is the number of bytes of @payload. */
static void send_line(const char *params, const char *payload)
{
	char with_length[256], line[512];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(with_length, sizeof(with_length), params, strlen(payload));
#pragma GCC diagnostic pop
	snprintf(line, sizeof(line), REQUEST("2", "tool.input", "%s") "\n", with_length);
	fake_client_send(&client, line);
}

/* Checks what has come. Nothing of a payload was answered. */
static void hears(const char *answer)
{
	const char *got = fake_client_take(&client);

	assert_null(strstr(got, "\"id\":9"));
	assert_null(strstr(got, "\"id\":10"));
	fake_service_match(client.service, got, answer);
}

/* The payload is the command's, in whatever pieces it comes. */
TEST(test_pieces)
{
	const size_t len = strlen(HOSTILE);
	char taken[64];

	snprintf(taken, sizeof(taken), RESULT("2", "{\"taken\":%zu,\"closed\":false}"), len);
	for (size_t first = 0; first <= len; first += len / 4) {
		char part[sizeof(HOSTILE)];

		send_line("{\"id\":1,\"bytes\":%zu}", HOSTILE);
		memcpy(part, HOSTILE, first);
		part[first] = '\0';
		fake_client_send(&client, part);
		if (first < len)
			hears("");
		fake_client_send(&client, &HOSTILE[first]);
		hears(taken);
		fake_client_says(&client, PING("3"), PONG("3"));
	}
	send_line("{\"id\":1,\"bytes\":%zu,\"eof\":true}", "");
	hears(RESULT("2", "{\"taken\":0,\"closed\":false}") "\n" RESULT(
		"1", "{*\"stdout\":\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":9,*\\\"id\\\":10,*}"));
	assert_false(client.ended);
}

/* The payload of a line that is refused is dropped, and lines follow. */
TEST(test_refused_lines)
{
	static const struct fake_exchange rows[] = {
		{"{\"id\":1,\"bytes\":%zu,\"data\":\"x\"}", ERROR("2", "-32602", "*with bytes*")},
		{"{\"id\":1,\"bytes\":%zu,\"encoding\":\"utf-8\"}",
			ERROR("2", "-32602", "*with bytes*")},
		{"{\"id\":{},\"bytes\":%zu}", ERROR("2", "-32602", "*id of a call*")},
		{"{\"bytes\":%zu}", ERROR("2", "-32602", "*id of a call*")},
		{"{\"id\":1,\"bytes\":%zu,\"eof\":1}", ERROR("2", "-32602", "*eof*")},
		{"{\"id\":7,\"bytes\":%zu}", ERROR("2", "-32000", NAMED("NOT_FOUND"))},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char both[256];

		/* In one piece, with a line behind it, and byte by byte. */
		snprintf(both, sizeof(both), "%s\n" PONG("3"), rows[i].answer);
		send_line(rows[i].says, HOSTILE);
		fake_client_send(&client, HOSTILE PING("3") "\n");
		hears(both);
		send_line(rows[i].says, HOSTILE);
		for (const char *c = HOSTILE; *c; c++)
			fake_client_send(&client, (char[]){*c, '\0'});
		hears(rows[i].answer);
		fake_client_says(&client, PING("3"), PONG("3"));
		assert_false(client.ended);
	}
	/* A notification is not answered, and its payload is dropped all the same. */
	fake_client_send(&client, NOTIFICATION("tool.input", "{\"id\":1,\"bytes\":5}") "\n12345");
	fake_client_says(&client, PING("3"), PONG("3"));
}

/* Where it is not known how long the payload is, no line can follow: the connection ends. */
TEST(test_lengths)
{
	static const struct {
		const char *bytes;
		bool ends;
	} rows[] = {
		{"0", false},
		{"-1", true},
		{"1048577", true},
		{"9223372036854775807", true},
		{"1.0", true},
		{"\"5\"", true},
		{"true", true},
		{"null", true},
		{"[5]", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char line[256];

		if (i > 0)
			set_up(state);
		snprintf(line, sizeof(line),
			REQUEST("2", "tool.input", "{\"id\":1,\"bytes\":%s}") "\n", rows[i].bytes);
		fake_client_send(&client, line);
		fake_client_send(&client, rows[i].ends ? HOSTILE : "");
		hears(rows[i].ends ? ERROR("2", "-32602", "*The connection ends*")
				   : RESULT("2", "{\"taken\":0,\"closed\":false}"));
		/* The calls of a connection that ends are still answered; lines are not read. */
		fake_client_says(&client, PING("3"), rows[i].ends ? NULL : PONG("3"));
		if (i + 1 < ARRAY_SIZE(rows))
			tear_down(state);
	}
}

/* Without memory for requests a payload is refused once, and dropped as it comes. */
TEST(test_a_payload_without_room)
{
	struct fake_service *fake = *state;
	char *payload = malloc(PAYLOAD + 1);

	memset(payload, '\n', PAYLOAD);
	payload[PAYLOAD] = '\0';
	memcpy(payload + PAYLOAD - strlen(HOSTILE), HOSTILE, strlen(HOSTILE));
	service_account(&fake->service, NULL, LIMIT_PENDING_TOTAL_BYTES);
	send_line("{\"id\":1,\"bytes\":%zu}", payload);
	hears("");
	fake_client_send(&client, "x");
	hears(BUSY_ERROR("2"));
	fake_client_send(&client, payload + 1);
	hears("");
	fake_client_says(&client, PING("3"), PONG("3"));
	service_account(&fake->service, NULL, -(int64_t)LIMIT_PENDING_TOTAL_BYTES);
	assert_false(client.ended);
	free(payload);
}

/* A line is refused before it is known whether it has a payload. What follows it may be one, if the
 * client sends payloads: then the connection ends. */
TEST(test_lines_that_are_lost)
{
	static const char *const lines[] = {
		"{\"jsonrpc\":\"2.0\",\n",
		"x\n",
		"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":5}\n",
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(lines); i++) {
		const bool sends_payloads = i % 2;

		if (i > 0)
			set_up(state);
		if (sends_payloads) {
			send_line("{\"id\":1,\"bytes\":%zu}", "x");
			fake_client_send(&client, "x");
			hears(RESULT("2", "{\"taken\":1,\"closed\":false}"));
		}
		fake_client_send(&client, lines[i / 2]);
		if (sends_payloads) {
			fake_client_send(&client, HOSTILE);
			hears(ERROR("*", "-32*", "*"));
			fake_client_says(&client, PING("3"), NULL);
		} else {
			hears(ERROR("*", "-32*", "*"));
			fake_client_says(&client, PING("3"), PONG("3"));
			assert_false(client.ended);
		}
		if (i + 1 < 2 * ARRAY_SIZE(lines))
			tear_down(state);
	}
}

/* A client that goes in the middle of a payload leaves nothing: tear_down() looks. */
TEST(test_the_end_within_a_payload)
{
	send_line("{\"id\":1,\"bytes\":%zu}", HOSTILE);
	fake_client_send(&client, PING("9") "\n");
	hears("");
}
