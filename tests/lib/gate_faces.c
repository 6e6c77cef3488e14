/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs in a cloister-gate of the tests, in place of gate/face_list.c: its own faces, and one by
 * which tests see how requests and answers stream. It keeps no body.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/face.h"
#include "gate/gate.h"
#include "gate/request.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

extern const struct gate_face face_gate, face_native, face_test;
const struct gate_face *const gate_faces[] = {&face_gate, &face_native, &face_test};
const size_t gate_faces_count = ARRAY_SIZE(gate_faces);

struct state {
	struct event *timer;
	struct gate_request *request;
	unsigned long long bytes, sum, wanted;
	bool slow;
};

/* What tests ask for at /test/seen. */
static unsigned long long n_ended, n_lost, n_written;

static void on_end(struct gate_request *request)
{
	struct state *state = gate_request_context(request);

	n_ended++;
	n_lost += gate_request_is_lost(request);
	event_free(state->timer);
	free(state);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct state *state = context;

	(void)fd;
	(void)what;
	gate_request_more(state->request);
}

static struct state *begin(struct gate_request *request)
{
	struct state *state = calloc(1, sizeof(*state));

	state->request = request;
	state->timer = event_new(gate_request_gate(request)->base, -1, 0, on_timer, state);
	gate_request_set_context(request, state);
	gate_request_on_end(request, on_end);
	return state;
}

static void answer_number(struct gate_request *request, unsigned long long number)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%llu\n", number);

	gate_answer_bytes(request, 200, "text/plain", (struct text){text, (size_t)len});
}

/* POST /test/count: how many bytes came. With ?slow each piece is taken in two parts. */
static size_t take(struct gate_request *request, struct text data)
{
	static const struct timeval soon = {.tv_usec = 1000};
	struct state *state = gate_request_context(request);
	size_t taken = state->slow && data.len > 1 ? data.len / 2 : data.len;

	state->bytes += taken;
	if (taken < data.len)
		event_add(state->timer, &soon);
	return taken;
}

static void end(struct gate_request *request)
{
	answer_number(request, ((struct state *)gate_request_context(request))->bytes);
}

static void count(struct gate_request *request)
{
	static const struct gate_reader reader = {take, end};

	begin(request)->slow = gate_request_query(request, "slow") != NULL;
	gate_request_stream(request, &reader);
}

/* POST /test/echo: the body again, of at most 64 KiB. */
static void echo(struct gate_request *request, struct text body)
{
	gate_answer_bytes(request, 200, "application/octet-stream", body);
}

static void collect(struct gate_request *request)
{
	begin(request);
	gate_request_collect(request, echo);
}

/* GET /test/flood/{n}: n bytes as fast as they are read; ?chunked: of unknown length. */
static void write_more(struct gate_request *request)
{
	static char piece[16 * KIB];
	struct state *state = gate_request_context(request);

	while (state->bytes < state->wanted && !gate_answer_full(request)) {
		size_t len = state->wanted - state->bytes < sizeof(piece)
				     ? (size_t)(state->wanted - state->bytes)
				     : sizeof(piece);

		gate_answer_write(request, (struct text){piece, len});
		state->bytes += len;
		n_written += len;
	}
	if (state->bytes == state->wanted)
		gate_answer_end(request);
}

static void flood(struct gate_request *request)
{
	struct state *state = begin(request);

	state->wanted = strtoull(gate_request_segment(request, "n"), NULL, 10);
	gate_answer_begin(request, 200,
		gate_request_query(request, "chunked") ? GATE_UNKNOWN : state->wanted);
	gate_answer_on_room(request, write_more);
	write_more(request);
}

/* GET /test/wait: an event, and then nothing. */
static void wait_for_ever(struct gate_request *request)
{
	begin(request);
	gate_answer_header(request, "Content-Type", "text/event-stream");
	gate_answer_begin(request, 200, GATE_UNKNOWN);
	gate_answer_write(request, TEXT_LITERAL("data: hello\n\n"));
}

/* GET /test/abort: an answer that breaks off. */
static void abort_it(struct gate_request *request)
{
	begin(request);
	gate_answer_begin(request, 200, GATE_UNKNOWN);
	gate_answer_write(request, TEXT_LITERAL("part"));
	gate_answer_abort(request);
}

/* POST /test/refuse: answers before the body has come. */
static void refuse(struct gate_request *request)
{
	begin(request);
	gate_answer_error(request, 403, "no");
}

static void seen(struct gate_request *request)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "{\"ended\":%llu,\"lost\":%llu,\"written\":%llu}\n",
		n_ended, n_lost, n_written);

	gate_answer_bytes(request, 200, "application/json", (struct text){text, (size_t)len});
}

static void show(struct gate_request *request)
{
	const char *segment = gate_request_segment(request, "path");
	const char *query = gate_request_query(request, "q");
	char text[512];
	int len = snprintf(text, sizeof(text), "%s|%s|%s", gate_request_method(request),
		segment ? segment : "", query ? query : "");

	gate_answer_bytes(request, 200, "text/plain", (struct text){text, (size_t)len});
}

static const struct gate_route routes[] = {
	{"POST", "/test/count", count, GATE_BODY_STREAM, .access = GATE_ACCESS_OPEN},
	{"PUT", "/test/count", count, GATE_BODY_STREAM, .access = GATE_ACCESS_OPEN},
	{"POST", "/test/small", count, 1000, .access = GATE_ACCESS_OPEN},
	{"POST", "/test/echo", collect, 64 * KIB, .access = GATE_ACCESS_OPEN},
	{"POST", "/test/refuse", refuse, 64 * KIB, .access = GATE_ACCESS_OPEN},
	{"GET", "/test/flood/{n}", flood, .access = GATE_ACCESS_OPEN},
	{"GET", "/test/wait", wait_for_ever, .access = GATE_ACCESS_OPEN},
	{"GET", "/test/keyed", wait_for_ever, .access = GATE_ACCESS_KEY},
	{"GET", "/test/abort", abort_it, .access = GATE_ACCESS_OPEN},
	{"GET", "/test/seen", seen, .access = GATE_ACCESS_OPEN},
	{"*", "/test/show/{path...}", show, .access = GATE_ACCESS_OPEN},
};

const struct gate_face face_test = {"test", NULL, routes, ARRAY_SIZE(routes)};
