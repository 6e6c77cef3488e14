// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd: session.read, the output of a session from a cursor on. A read that waits is
 * answered when one of its conditions is met, when its time is over or when the session has ended;
 * the session never waits for it. The output is hostile bytes, the client is hostile too.
 */
#include "supervisor/agent/method_background_read.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/method_background.h"
#include "supervisor/agent/output_chunks.h"
#include "supervisor/background/background_use.h"
#include "supervisor/background/background_wait.h"
#include "supervisor/background/until.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/timer.h"
#include "supervisor/rpc/session_state.h"
#include "supervisor/schedule/loop_share.h"

#include <assert.h>
#include <errno.h>
#include <json-c/json_object.h>

#define NOT_MET      (-1)
#define SEARCH_BYTES (64 * KIB) /* of output that are searched in one slice of the loop */

/* A read, which may wait. */
struct read {
	struct session_pending pending; /* its session is set only while it waits */
	struct background_waiter waiter;
	struct background *background;
	uint64_t after;
	int64_t max_bytes, wait_ms;
	bool base64;
	int met; /* the index of the condition that is met, or NOT_MET */
	size_t n_conditions;
	const struct until *silence; /* the condition of the shortest silence, or NULL */
	struct until conditions[LIMIT_SESSION_UNTIL];
	struct timer deadline, quiet;
	struct timer ports; /* when it is looked again whether a port listens */
	uint64_t searched;  /* the conditions have seen the output before this cursor */
	uint64_t last;      /* output after this cursor came when the time was over */
	struct loop_share_task search;
	bool watching; /* counted in the client's session: more output is waited for */
	bool ended; /* the background session: what it has written is searched, and then answered */
	bool silent; /* for as long as a condition says, but not all is searched */
};

/* Reading the parameters. */

/* Reads one condition: an object with one member. */
static const char *read_condition(struct json_object *json, struct until *ret)
{
	static const char wrong[] =
		"until must be an array of at most 4 objects, each {\"contains\":…}, "
		"{\"exit\":true}, {\"port\":…} or {\"quiet_ms\":…}";
	struct text bytes = {NULL, 0};
	struct json_object *value;

	if (!json_object_is_type(json, json_type_object) || json_object_object_length(json) != 1)
		return wrong;
	*ret = (struct until){0};
	if (json_object_object_get_ex(json, "contains", &value)) {
		if (!session_string_param(json, "contains", &bytes) || bytes.len == 0 ||
			bytes.len > LIMIT_SESSION_UNTIL_BYTES)
			return "contains must be a string of 1 to 256 bytes";
		until_contains(ret, bytes);
		return NULL;
	}
	if (json_object_object_get_ex(json, "exit", &value)) {
		ret->kind = UNTIL_EXIT;
		return json_object_is_type(value, json_type_boolean) &&
				       json_object_get_boolean(value)
			       ? NULL
			       : wrong;
	}
	if (json_object_object_get_ex(json, "port", &value)) {
		ret->kind = UNTIL_PORT;
		return value && number_param(
					json, "port", LISTENING_PORT_MIN, UINT16_MAX, &ret->port)
			       ? NULL
			       : "port must be a number from 1024 to 65535";
	}
	if (!json_object_object_get_ex(json, "quiet_ms", &value))
		return wrong;
	ret->kind = UNTIL_QUIET;
	return value && number_param(json, "quiet_ms", 1, LIMIT_SESSION_WAIT_MS, &ret->quiet_ms)
		       ? NULL
		       : "quiet_ms must be a number from 1 to 300000";
}

static const char *read_conditions(struct json_object *params, struct read *read)
{
	struct json_object *until;
	const char *wrong = NULL;

	if (!json_object_object_get_ex(params, "until", &until) || !until)
		return NULL;
	if (!json_object_is_type(until, json_type_array) ||
		json_object_array_length(until) > LIMIT_SESSION_UNTIL)
		return "until must be an array of at most 4 conditions";
	read->n_conditions = json_object_array_length(until);
	for (size_t i = 0; !wrong && i < read->n_conditions; i++)
		wrong = read_condition(json_object_array_get_idx(until, i), &read->conditions[i]);
	for (size_t i = 0; !wrong && i < read->n_conditions; i++) {
		const struct until *condition = &read->conditions[i];

		if (condition->kind == UNTIL_QUIET &&
			(!read->silence || condition->quiet_ms < read->silence->quiet_ms))
			read->silence = condition;
	}
	return wrong;
}

/* Returns NULL, or a message about the mistake in @params. */
static const char *read_params(struct json_object *params, struct read *read)
{
	const char *wrong;
	int64_t after = 0;

	read->met = NOT_MET;
	read->last = UINT64_MAX;
	read->max_bytes = 64 * KIB;
	if (!number_param(params, "after", 0, INT64_MAX, &after))
		return "after must be a cursor: a number that is not negative";
	read->after = (uint64_t)after;
	if (!number_param(params, "max_bytes", 0, LIMIT_SESSION_READ_BYTES, &read->max_bytes))
		return "max_bytes must be a number from 0 to 1048576";
	if (!number_param(params, "wait_ms", 0, LIMIT_SESSION_WAIT_MS, &read->wait_ms))
		return "wait_ms must be a number from 0 to 300000";
	wrong = base64_param(params, &read->base64);
	return wrong ? wrong : read_conditions(params, read);
}

/* What of the output is given. */

static struct output_reader reader_of(const struct read *read)
{
	return (struct output_reader){read->background, read->after, read->base64};
}

/* Answering. */

static void answer(const struct read *read, struct session *session, const char *id_text)
{
	const struct output_reader reader = reader_of(read);
	uint64_t at, last, lost;
	struct background_info info;
	struct json_text json;

	background_touch(read->background);
	background_get_info(read->background, &info);
	output_range(&reader, output_room(session, (uint64_t)read->max_bytes), &at, &last);
	lost = output_ring_lost(background_output(read->background), read->after);
	session_answer_begin(session, &json, id_text);
	json_text_object_begin(&json);
	json_text_key(&json, "chunks");
	json_text_array_begin(&json);
	for (size_t i = 0; at < last && i < LIMIT_SESSION_CHUNKS; i++) {
		json_text_object_begin(&json);
		at = output_put_chunk(&reader, &json, at, last);
		json_text_object_end(&json);
	}
	json_text_array_end(&json);
	json_text_put_number(&json, "next", (int64_t)at);
	json_text_put_number(&json, "lost_bytes", (int64_t)lost);
	json_text_key(&json, "met");
	if (read->met == NOT_MET)
		json_text_null(&json);
	else
		json_text_int64(&json, read->met);
	json_text_put(&json, "state", background_state_name(info.state));
	if (info.end.data) {
		json_text_key(&json, "end");
		json_text_raw(&json, info.end);
	}
	json_text_object_end(&json);
	session_answer_end(session, &json);
}

static void stop_watching(struct read *read)
{
	if (!read->watching)
		return;
	assert(read->pending.session->n_watching > 0);
	read->pending.session->n_watching--;
	read->watching = false;
}

static void forget(struct read *read)
{
	stop_watching(read);
	background_stop_waiting(&read->waiter);
	timer_cancel(&read->deadline);
	timer_cancel(&read->quiet);
	timer_cancel(&read->ports);
	loop_share_cancel(&read->search);
	if (read->pending.session) {
		LIST_UNLINK(&read->pending, link);
		assert(read->pending.session->n_pending > 0);
		read->pending.session->n_pending--;
	}
	free(read->pending.id_text);
	free(read);
}

static void leave(struct session_pending *pending)
{
	forget((struct read *)pending);
}

/* The end meets the condition that waits for it. */
static void note_end(struct read *read)
{
	for (size_t i = 0; i < read->n_conditions && read->met == NOT_MET; i++)
		if (read->conditions[i].kind == UNTIL_EXIT)
			read->met = (int)i;
}

static void finish(struct read *read)
{
	if (read->ended)
		note_end(read);
	answer(read, read->pending.session, read->pending.id_text);
	forget(read);
}

/* Searching. */

/* Feeds output to the search, and notes the first condition that is met by it. */
static void feed(struct read *read, unsigned stream, struct text data)
{
	for (size_t i = 0; i < read->n_conditions && read->met == NOT_MET; i++)
		if (until_feed(&read->conditions[i], stream, data))
			read->met = (int)i;
}

/* Returns the cursor up to which output counts. */
static uint64_t end_of_search(const struct read *read)
{
	const uint64_t end = background_output(read->background)->end;

	return read->last < end ? read->last : end;
}

static bool is_searched(const struct read *read)
{
	return read->met != NOT_MET || read->searched >= end_of_search(read);
}

static bool is_overdue(const struct read *read)
{
	return read->last != UINT64_MAX;
}

/* A command that writes faster than the search goes on must not delay the answer. */
static void set_overdue(struct read *read)
{
	read->last = background_output(read->background)->end;
}

/* Without bytes to be found there is nothing to search. */
static bool is_for_bytes(const struct read *read)
{
	for (size_t i = 0; i < read->n_conditions; i++)
		if (read->conditions[i].kind == UNTIL_CONTAINS)
			return true;
	return false;
}

/* Sets where the search begins. */
static void begin_search(struct read *read)
{
	read->searched =
		is_for_bytes(read) ? read->after : background_output(read->background)->end;
}

/* What was lost since the last slice parts what was found from what comes. */
static void skip_lost(struct read *read, uint64_t start)
{
	for (size_t i = 0; i < read->n_conditions; i++)
		memset(read->conditions[i].matched, 0, sizeof(read->conditions[i].matched));
	read->searched = start;
}

/* Searches one slice of the output that is kept: all of it would hold up the other clients. */
static void search(struct read *read)
{
	const struct output_ring *ring = background_output(read->background);
	struct output_piece piece;
	uint64_t last = end_of_search(read);

	if (read->searched < ring->start)
		skip_lost(read, ring->start);
	if (last > read->searched + SEARCH_BYTES)
		last = read->searched + SEARCH_BYTES;
	while (read->met == NOT_MET && read->searched < last &&
		output_ring_piece(ring, read->searched, (size_t)(last - read->searched), &piece)) {
		feed(read, piece.stream, piece.data);
		read->searched += piece.data.len;
	}
}

static void search_later(struct read *read)
{
	loop_share_wait(&read->search, session_share(read->pending.session));
}

/* A slice may not free its task: the timer answers. */
static void on_search(void *context)
{
	struct read *read = context;

	search(read);
	if (!is_searched(read))
		search_later(read);
	else if (read->met != NOT_MET || is_overdue(read) || read->ended)
		timer_set(&read->deadline, 0);
	else if (read->silent)
		timer_set(&read->quiet, 0);
}

/* Whether there is something to give to a read without conditions. */
static bool has_something(const struct read *read)
{
	const struct output_reader reader = reader_of(read);
	uint64_t first, last;

	output_range(&reader, LIMIT_SESSION_READ_BYTES, &first, &last);
	return last > first || first > read->after;
}

static void set_quiet(struct read *read)
{
	read->silent = false;
	if (read->silence)
		timer_set(&read->quiet, read->silence->quiet_ms);
}

/*
 * Whether @read searches the output up to @end as it comes. One of the reads of a session does: all
 * of them together would hold up the other clients, so each of the others has slices of its own.
 */
static bool searches_at_once(const struct read *read, uint64_t end)
{
	static const struct background *last;
	static uint64_t last_end;
	const bool is_first = last != read->background || last_end != end;

	last = read->background;
	last_end = end;
	return is_first;
}

static void on_output(void *context, unsigned stream, struct text data)
{
	struct read *read = context;
	const uint64_t end = background_output(read->background)->end;

	/* Otherwise the search has not come as far yet. */
	if (read->searched + data.len == end) {
		if (!is_for_bytes(read) || searches_at_once(read, end)) {
			feed(read, stream, data);
			read->searched = end;
		} else {
			search_later(read);
		}
	}
	if (read->met != NOT_MET || (read->n_conditions == 0 && has_something(read)))
		finish(read);
	else
		set_quiet(read);
}

static void on_ended(void *context, bool forgotten)
{
	struct read *read = context;

	read->ended = true;
	stop_watching(read);
	if (forgotten || is_searched(read))
		finish(read);
}

static void on_deadline(void *context)
{
	struct read *read = context;

	if (!is_overdue(read))
		set_overdue(read);
	if (is_searched(read))
		finish(read);
}

static void on_quiet(void *context)
{
	struct read *read = context;

	if (!is_searched(read)) {
		read->silent = true;
		return;
	}
	if (read->met == NOT_MET)
		read->met = (int)(read->silence - read->conditions);
	finish(read);
}

static bool waits_for_port(const struct read *read)
{
	for (size_t i = 0; i < read->n_conditions; i++)
		if (read->conditions[i].kind == UNTIL_PORT)
			return true;
	return false;
}

/* Notes the first condition that is met by a port that listens. */
static void look_at_ports(struct read *read)
{
	for (size_t i = 0; i < read->n_conditions && read->met == NOT_MET; i++)
		if (read->conditions[i].kind == UNTIL_PORT &&
			background_listens(read->background, (uint16_t)read->conditions[i].port))
			read->met = (int)i;
}

static void on_ports(void *context)
{
	struct read *read = context;

	look_at_ports(read);
	if (read->met != NOT_MET)
		finish(read);
	else if (!read->ended)
		timer_set(&read->ports, LIMIT_PORT_ASK_MS);
}

/* Makes @read wait; it is taken on success only. */
static int wait_for_more(
	struct read *read, struct session *session, struct jsonrpc_request *request)
{
	int r;

	if (session_calls(session) >= LIMIT_CALLS_PER_CONNECTION)
		return -EUSERS;
	read->waiter =
		(struct background_waiter){.output = on_output, .ended = on_ended, .context = read};
	r = background_wait(read->background, &read->waiter);
	if (r < 0)
		return r;
	read->pending.session = session;
	read->pending.leave = leave;
	read->pending.id_text = TAKE_PTR(request->id_text);
	LIST_LINK_HEAD(&session->pending, &read->pending, link);
	session->n_pending++;
	read->watching = !read->ended;
	session->n_watching += read->watching;
	if (read->wait_ms > 0)
		timer_set(&read->deadline, read->wait_ms);
	else
		set_overdue(read);
	set_quiet(read);
	if (waits_for_port(read))
		timer_set(&read->ports, LIMIT_PORT_ASK_MS);
	if (!is_searched(read))
		search_later(read);
	return 0;
}

/* Answers now, or makes @read wait. Returns whether it waits. */
static bool answer_or_wait(
	struct read *read, struct session *session, struct jsonrpc_request *request)
{
	struct background_info info;

	begin_search(read);
	search(read);
	background_get_info(read->background, &info);
	read->ended = info.state == BACKGROUND_ENDED;
	look_at_ports(read);
	if (!is_searched(read) || (!read->ended && read->met == NOT_MET && read->wait_ms > 0 &&
					  (read->n_conditions > 0 || !has_something(read)))) {
		if (wait_for_more(read, session, request) == 0)
			return true;
		session_answer_busy(session, request->id_text,
			"Too many requests wait; wait for an answer first");
		return false;
	}
	if (read->ended)
		note_end(read);
	answer(read, session, request->id_text);
	return false;
}

void method_session_read(struct session *session, struct jsonrpc_request *request)
{
	struct read *read;
	const char *wrong;

	if (request->notification)
		return;
	read = calloc(1, sizeof(*read));
	if (!read) {
		session_answer_busy(session, request->id_text, "Out of memory");
		return;
	}
	timer_init(&read->deadline, on_deadline, read);
	timer_init(&read->quiet, on_quiet, read);
	timer_init(&read->ports, on_ports, read);
	read->search = (struct loop_share_task){.act = on_search, .context = read};
	wrong = read_params(request->params, read);
	if (wrong)
		answer_wrong(session, request, wrong);
	else
		read->background = background_param(session, request);
	if (read->background && read->after > background_output(read->background)->end)
		answer_beyond(session, request,
			"after is beyond the output; go on from next, the end of what was written",
			background_output(read->background)->end);
	else if (read->background && waits_for_port(read) &&
		 !background_tells_ports(read->background))
		session_answer_error(session, request->id_text, JSONRPC_SERVER_ERROR,
			"This host does not tell which ports listen (sock_diag(7) with tcp_diag); "
			"wait with contains for what the program writes when it listens",
			tool_error_name(TOOL_EXECUTION_ERROR));
	else if (read->background && answer_or_wait(read, session, request))
		return;
	forget(read);
}
