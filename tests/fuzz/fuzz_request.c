/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes of a client on the agent socket: framing, JSON-RPC, the method
 * table and its params, on a connection of a real loop. The client's tenant may open nothing, so no
 * call begins and every answer comes at once. Each answer is one line of valid JSON-RPC, and
 * cutting the bytes into other pieces changes nothing.
 *
 * Input: one byte for the length of the pieces, then the client's bytes.
 */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/endpoint.h"
#include "supervisor/connection/jsonrpc.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/fuzz/fuzz.h"
#include "json/json_read.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <sys/socket.h>
#include <unistd.h>

static struct service service;

static void on_idle(struct service *idle)
{
	(void)idle;
}

static void set_up(void)
{
	static const char *const own_paths[] = {NULL};
	struct event_config *event_config = event_config_new();
	struct tenant *tenant = tenant_new("t");

	event_config_set_max_dispatch_interval(event_config, NULL, 1, LOOP_PRIORITY_BULK);
	service.base = event_base_new_with_config(event_config);
	event_config_free(event_config);
	event_base_priority_init(service.base, LOOP_PRIORITIES);
	CHECK(loop_turn_start(service.base) == 0 && loop_share_start(service.base) == 0);
	CHECK(timers_start(service.base) == 0);
	service.config = config_new();
	service.admission.scheduler = scheduler_new(service.base, service.config);
	service.workspaces =
		workspaces_new(service.base, NULL, service.admission.scheduler, own_paths, -1);
	service.idle = on_idle;
	tenant->users.ids = malloc(sizeof(uint32_t));
	tenant->users.ids[0] = getuid();
	tenant->users.count = 1;
	CHECK(usage_begin(tenant) == 0);
	CHECK(config_add_tenant(service.config, tenant) == 0);
}

/* Returns the answers to @input, which is sent in pieces of @piece bytes. */
static struct evbuffer *talk(struct text input, size_t piece)
{
	struct evbuffer *answers = evbuffer_new();
	struct peer_credentials peer = {.uid = getuid(), .gid = getgid()};
	bool open = true, sent_all = false;
	int sockets[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
	CHECK(agent_conn_new(&service, &agent_endpoint, sockets[0], &peer) == 0);
	while (open) {
		size_t len = input.len < piece ? input.len : piece;
		ssize_t n = 0;

		if (len > 0)
			n = send(sockets[1], input.data, len, MSG_NOSIGNAL);
		if (n > 0)
			input = (struct text){input.data + n, input.len - (size_t)n};
		if (n < 0)
			input.len = 0;
		if (input.len == 0 && !sent_all) {
			shutdown(sockets[1], SHUT_WR);
			sent_all = true;
		}
		clock_begin_turn();
		event_base_loop(service.base, EVLOOP_NONBLOCK);
		do
			n = evbuffer_read(answers, sockets[1], 65536);
		while (n > 0);
		open = service.connections > 0;
	}
	close(sockets[1]);
	CHECK(service.pending_bytes == 0 && service.connections == 0);
	return answers;
}

static void check_answer(struct text line)
{
	const struct json_bounds bounds = json_request_bounds(line.len);
	struct json_object *answer = NULL, *value;
	struct json_report report;

	CHECK(json_read(line, &bounds, &answer, &report) == 0);
	CHECK(answer && json_object_is_type(answer, json_type_object));
	CHECK(json_object_object_get_ex(answer, "jsonrpc", &value));
	CHECK(strcmp(json_object_get_string(value), "2.0") == 0);
	CHECK(json_object_object_get_ex(answer, "id", NULL));
	CHECK(json_object_object_get_ex(answer, "result", NULL) !=
		json_object_object_get_ex(answer, "error", NULL));
	json_object_put(answer);
}

static size_t check_answers(struct text answers)
{
	size_t n = 0;

	for (; answers.len > 0; n++) {
		CHECK(memchr(answers.data, '\n', answers.len));
		check_answer(text_take(&answers, '\n'));
	}
	return n;
}

/* Returns the number of answers due: one for each line, except empty ones and valid notifications.
 */
static size_t owed(struct text input)
{
	size_t n = 0;

	while (input.len > 0 && memchr(input.data, '\n', input.len)) {
		struct text line = text_take(&input, '\n');
		struct jsonrpc_request request;
		struct jsonrpc_fault fault;

		if (line.len == 0)
			continue;
		if (jsonrpc_parse(line, SIZE_MAX, &request, &fault) == 0) {
			n += !request.notification;
			CHECK(request.notification == !request.id_text);
			jsonrpc_request_free(&request);
		} else {
			n += !fault.notification;
			jsonrpc_fault_free(&fault);
		}
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text input = fuzz_text(data, size), first, second;
	size_t piece = (size_t)fuzz_byte(&input) * 8 + 1;
	struct evbuffer *whole, *pieces;
	char *copy;

	if (!service.base)
		set_up();
	copy = fuzz_copy(input);
	input.data = copy;
	whole = talk(input, SIZE_MAX);
	pieces = talk(input, piece < input.len / 64 ? input.len / 64 : piece);
	first = (struct text){(char *)evbuffer_pullup(whole, -1), evbuffer_get_length(whole)};
	second = (struct text){(char *)evbuffer_pullup(pieces, -1), evbuffer_get_length(pieces)};
	CHECK(text_equal(first, second));
	CHECK(check_answers(first) == owed(input));
	evbuffer_free(whole);
	evbuffer_free(pieces);
	free(copy);
	return 0;
}
