// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The output is hostile bytes, the client is hostile too. */
#include "supervisor/agent/session/output_wait.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/agent/session/output_chunks.h"
#include "supervisor/agent/session/session_params.h"
#include "supervisor/base/clock.h"
#include "supervisor/session/session_use.h"

#include <assert.h>
#include <errno.h>

#define SEARCH_BYTES (64 * KIB) /* of output that are searched in one slice of the loop */

static void stop_watching(struct output_wait *wait)
{
	if (!wait->watching)
		return;
	assert(wait->pending.client->n_watching > 0);
	wait->pending.client->n_watching--;
	wait->watching = false;
}

void output_wait_forget(struct output_wait *wait)
{
	stop_watching(wait);
	session_stop_waiting(&wait->waiter);
	timer_cancel(&wait->deadline);
	timer_cancel(&wait->quiet);
	timer_cancel(&wait->ports);
	loop_share_cancel(&wait->search);
	if (wait->pending.client) {
		LIST_UNLINK(&wait->pending, link);
		assert(wait->pending.client->n_pending > 0);
		wait->pending.client->n_pending--;
	}
	free(wait->pending.id_text);
	if (wait->done)
		wait->done(wait);
	free(wait);
}

static void leave_output_wait(struct client_pending *pending)
{
	output_wait_forget((struct output_wait *)pending);
}

/* The end meets the condition that waits for it. */
static void note_end(struct output_wait *wait)
{
	for (size_t i = 0; i < wait->n_conditions && wait->met == OUTPUT_NOT_MET; i++)
		if (wait->conditions[i].kind == UNTIL_EXIT)
			wait->met = (int)i;
}

static void finish_output_wait(struct output_wait *wait)
{
	if (wait->ended)
		note_end(wait);
	if (may_still_use_session(wait->pending.client, wait->session))
		wait->answer(wait, wait->pending.client, wait->pending.id_text);
	else
		answer_no_session(wait->pending.client, wait->pending.id_text);
	output_wait_forget(wait);
}

/* Searching. */

/* Feeds output to the search, and notes the first condition that is met by it. */
static void feed(struct output_wait *wait, unsigned stream, struct text data)
{
	for (size_t i = 0; i < wait->n_conditions && wait->met == OUTPUT_NOT_MET; i++)
		if (until_feed(&wait->conditions[i], stream, data))
			wait->met = (int)i;
}

/* Returns the cursor up to which output counts. */
static uint64_t end_of_search(const struct output_wait *wait)
{
	const uint64_t end = session_output(wait->session)->end;

	return wait->last < end ? wait->last : end;
}

static bool is_searched(const struct output_wait *wait)
{
	return wait->met != OUTPUT_NOT_MET || wait->searched >= end_of_search(wait);
}

static bool is_overdue(const struct output_wait *wait)
{
	return wait->last != UINT64_MAX;
}

/* A command that writes faster than the search goes on must not delay the answer. */
static void set_overdue(struct output_wait *wait)
{
	wait->last = session_output(wait->session)->end;
}

/* Without bytes to be found there is nothing to search. */
static bool is_for_bytes(const struct output_wait *wait)
{
	for (size_t i = 0; i < wait->n_conditions; i++)
		if (wait->conditions[i].kind == UNTIL_CONTAINS)
			return true;
	return false;
}

/* Sets where the search begins. */
static void begin_search(struct output_wait *wait)
{
	wait->searched = is_for_bytes(wait) ? wait->after : session_output(wait->session)->end;
}

/* What was lost since the last slice parts what was found from what comes. */
static void skip_lost(struct output_wait *wait, uint64_t start)
{
	for (size_t i = 0; i < wait->n_conditions; i++)
		memset(wait->conditions[i].matched, 0, sizeof(wait->conditions[i].matched));
	wait->searched = start;
}

/* Searches one slice of the output that is kept: all of it would hold up the other clients. */
static void search(struct output_wait *wait)
{
	const struct output_ring *ring = session_output(wait->session);
	struct output_piece piece;
	uint64_t last = end_of_search(wait);

	if (wait->searched < ring->start)
		skip_lost(wait, ring->start);
	if (last > wait->searched + SEARCH_BYTES)
		last = wait->searched + SEARCH_BYTES;
	while (wait->met == OUTPUT_NOT_MET && wait->searched < last &&
		output_ring_piece(ring, wait->searched, (size_t)(last - wait->searched), &piece)) {
		feed(wait, piece.stream, piece.data);
		wait->searched += piece.data.len;
	}
}

static void search_later(struct output_wait *wait)
{
	loop_share_wait(&wait->search, client_share(wait->pending.client));
}

/* A slice may not free its task: the timer answers. */
static void on_search(void *context)
{
	struct output_wait *wait = context;

	search(wait);
	if (!is_searched(wait))
		search_later(wait);
	else if (wait->met != OUTPUT_NOT_MET || is_overdue(wait) || wait->ended)
		timer_set(&wait->deadline, 0);
	else if (wait->silent)
		timer_set(&wait->quiet, 0);
}

/* Whether there is something to give to a read without conditions. */
static bool has_something(const struct output_wait *wait)
{
	const struct output_reader reader = {wait->session, wait->after, wait->base64};
	uint64_t first, last;

	output_range(&reader, LIMIT_SESSION_READ_BYTES, &first, &last);
	return last > first || first > wait->after;
}

static void set_quiet(struct output_wait *wait)
{
	wait->silent = false;
	if (!wait->silence || (wait->silence->after_output && !has_something(wait)))
		return;
	wait->stopped_ns = session_stopped_ns(wait->session);
	timer_set(&wait->quiet, wait->silence->quiet_ms);
}

/* One of those who wait searches output as it comes; each of the others has slices of its own. */
static void on_waited_output(void *context, unsigned stream, struct text data, bool *searched)
{
	struct output_wait *wait = context;
	const uint64_t end = session_output(wait->session)->end;

	/* Otherwise the search has not come as far yet. */
	if (wait->searched + data.len == end) {
		if (is_for_bytes(wait) && *searched) {
			search_later(wait);
		} else {
			*searched |= is_for_bytes(wait);
			feed(wait, stream, data);
			wait->searched = end;
		}
	}
	if (wait->met != OUTPUT_NOT_MET || (wait->n_conditions == 0 && has_something(wait)))
		finish_output_wait(wait);
	else
		set_quiet(wait);
}

static void on_waited_ended(void *context, bool forgotten)
{
	struct output_wait *wait = context;

	wait->ended = true;
	stop_watching(wait);
	if (forgotten || is_searched(wait))
		finish_output_wait(wait);
}

static void on_deadline(void *context)
{
	struct output_wait *wait = context;

	if (!is_overdue(wait))
		set_overdue(wait);
	if (is_searched(wait))
		finish_output_wait(wait);
}

static void on_quiet(void *context)
{
	struct output_wait *wait = context;

	if (session_was_stopped(wait->session, &wait->stopped_ns, &wait->quiet))
		return;
	if (!is_searched(wait)) {
		wait->silent = true;
		return;
	}
	if (wait->met == OUTPUT_NOT_MET)
		wait->met = (int)(wait->silence - wait->conditions);
	finish_output_wait(wait);
}

bool output_wait_needs_ports(const struct output_wait *wait)
{
	for (size_t i = 0; i < wait->n_conditions; i++)
		if (wait->conditions[i].kind == UNTIL_PORT)
			return true;
	return false;
}

/* Notes the first condition that is met by a port that listens. */
static void look_at_ports(struct output_wait *wait)
{
	for (size_t i = 0; i < wait->n_conditions && wait->met == OUTPUT_NOT_MET; i++)
		if (wait->conditions[i].kind == UNTIL_PORT &&
			session_listens(wait->session, (uint16_t)wait->conditions[i].port))
			wait->met = (int)i;
}

static void on_ports(void *context)
{
	struct output_wait *wait = context;

	look_at_ports(wait);
	if (wait->met != OUTPUT_NOT_MET)
		finish_output_wait(wait);
	else if (!wait->ended)
		timer_set(&wait->ports, LIMIT_PORT_ASK_MS);
}

/* Makes @wait wait; it is taken on success only. */
static int wait_for_more(
	struct output_wait *wait, struct client *client, struct jsonrpc_request *request)
{
	int r;

	if (client_calls(client) >= LIMIT_CALLS_PER_CONNECTION)
		return -EUSERS;
	wait->waiter = (struct session_waiter){
		.output = on_waited_output, .ended = on_waited_ended, .context = wait};
	r = session_wait(session_waiting(wait->session), &wait->waiter);
	if (r < 0)
		return r;
	wait->pending.client = client;
	wait->pending.leave = leave_output_wait;
	wait->pending.id_text = TAKE_PTR(request->id_text);
	LIST_LINK_HEAD(&client->pending, &wait->pending, link);
	client->n_pending++;
	wait->watching = !wait->ended;
	client->n_watching += wait->watching;
	if (wait->wait_ms > 0)
		timer_set(&wait->deadline, wait->wait_ms);
	else
		set_overdue(wait);
	set_quiet(wait);
	if (output_wait_needs_ports(wait))
		timer_set(&wait->ports, LIMIT_PORT_ASK_MS);
	if (!is_searched(wait))
		search_later(wait);
	return 0;
}

void output_wait_init(struct output_wait *wait)
{
	wait->met = OUTPUT_NOT_MET;
	wait->last = UINT64_MAX;
	timer_init(&wait->deadline, on_deadline, wait);
	timer_init(&wait->quiet, on_quiet, wait);
	timer_init(&wait->ports, on_ports, wait);
	wait->search = (struct loop_share_task){.act = on_search, .context = wait};
}

struct until *output_wait_add(struct output_wait *wait)
{
	assert(wait->n_conditions < LIMIT_SESSION_UNTIL);
	return &wait->conditions[wait->n_conditions++];
}

/* Notes which silence is the shortest that is waited for. */
static void find_silence(struct output_wait *wait)
{
	for (size_t i = 0; i < wait->n_conditions; i++) {
		const struct until *condition = &wait->conditions[i];

		if (condition->kind == UNTIL_QUIET &&
			(!wait->silence || condition->quiet_ms < wait->silence->quiet_ms))
			wait->silence = condition;
	}
}

int output_wait_begin(
	struct output_wait *wait, struct client *client, struct jsonrpc_request *request)
{
	struct session_info info;
	int r;

	find_silence(wait);
	begin_search(wait);
	search(wait);
	session_get_info(wait->session, &info);
	wait->ended = info.state == SESSION_ENDED;
	look_at_ports(wait);
	if (!is_searched(wait) ||
		(!wait->ended && wait->met == OUTPUT_NOT_MET && wait->wait_ms > 0 &&
			(wait->n_conditions > 0 || !has_something(wait)))) {
		r = wait_for_more(wait, client, request);
		return r < 0 ? r : 1;
	}
	if (wait->ended)
		note_end(wait);
	wait->answer(wait, client, request->id_text);
	return 0;
}
