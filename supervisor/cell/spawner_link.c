// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. common/wire/wire_spawner.h has the messages. */
#include "supervisor/cell/spawner_link.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/channel.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/log_relay.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/cell/helper_process.h"
#include "supervisor/cell/silence.h"
#include "supervisor/cell/spawner_begin.h"
#include "supervisor/cell/spawner_link_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define LOOK_MS 1000 /* interval of the checks whether an answer is overdue */

/*
 * A request, until it is answered:
 *
 *              its good answer      OPEN_FAILED   any other answer     forgotten   spawner lost
 *   WAITING    the spawner is lost  the spawner   the spawner is lost  nothing     -ECONNRESET
 *                                   is lost                            is sent
 *   SENT       is passed on         is passed on  the spawner is lost  FORGOTTEN   -ECONNRESET
 *   FORGOTTEN  its processes are    nothing       the spawner is lost  FORGOTTEN   nothing
 *              killed
 *
 * Tenants take turns at the spawner (common/fair_queue.h), which serves what it has been sent in
 * order. A request keeps its place there until its answer or SPAWNER_WAITS comes, also when it is
 * forgotten. A second answer to a request is handled like one to a forgotten
 * request. A forgotten request accepts a successful answer of any type, because the type that was
 * asked for is forgotten, too.
 */

struct spawner_link {
	struct helper_process process;
	struct channel channel;
	bool is_lost;
	uint64_t last_cell, last_look;
	LIST_HEAD(, pending_cell) pending;
	struct fair_queue turns;
	size_t unanswered; /* requests that are sent or forgotten */
	/* since its last answer, or since a request when none was pending */
	struct silence silence;
	struct timer look;
	struct watch watch; /* the channel's socket */
	struct loop_turn_task flush;
	struct timer retry;  /* tries to write again, */
	struct timer resume; /* or to read again, after memory ran out */
	/* places for an answer's descriptors when no others are free */
	int reserve[SPAWNER_OPENED_MOST];
	void (*lost)(void *context);
	void *context;
	/* NULL: nobody hears of the spawner's own work */
	void (*worked)(void *context, const struct spawner_worked *message);
	void *hearer;
};

static uint64_t now_us(void)
{
	return (uint64_t)(clock_now() / CLOCK_NS_PER_US);
}

static int tell_spawner(struct spawner_link *link, uint8_t type)
{
	return channel_send(&link->channel, type, 0, (struct text){NULL, 0}, NULL, 0);
}

int spawner_link_start(
	const struct spawner_start *start, struct spawner_link **ret, char **ret_message)
{
	struct spawner_link *link = calloc(1, sizeof(*link));
	int r;

	*ret_message = NULL;
	if (!link)
		return -ENOMEM;
	LIST_INIT(&link->pending);
	fair_queue_init(&link->turns, LIMIT_SPAWNER_REQUESTS, LIMIT_SPAWNER_REQUESTS_OF_TENANT, 0);
	for (size_t i = 0; i < ARRAY_SIZE(link->reserve); i++)
		link->reserve[i] = -1;
	channel_init(&link->channel, -1, -1, 0);
	link->silence.stat = -1;
	r = spawner_begin(start, &link->process, &link->channel, ret_message);
	if (r < 0) {
		spawner_link_free(link);
		return r;
	}
	fcntl(link->channel.in, F_SETFL, O_NONBLOCK);
	silence_open(&link->silence, link->process.pid);
	*ret = link;
	return 0;
}

void spawner_link_beside(struct spawner_link *link, bool beside)
{
	if (!link->is_lost && channel_send(&link->channel, SPAWNER_BESIDE, beside,
				      (struct text){NULL, 0}, NULL, 0) == 0)
		loop_turn_defer(&link->flush);
}

void spawner_link_reload(struct spawner_link *link)
{
	/* If there is no memory for this frame, the next request fails too, and reports it. */
	if (!link->is_lost && tell_spawner(link, SPAWNER_RELOAD) == 0)
		loop_turn_defer(&link->flush);
}

/* What is told before the link is served waits for that. */
static void flush_soon(struct spawner_link *link)
{
	if (link->lost)
		loop_turn_defer(&link->flush);
}

/* Tells of @path. What is not told is found at the spawner's next start, or asked for again. */
static void tell_path(
	struct spawner_link *link, uint8_t type, const struct spawner_look_up *message)
{
	uint8_t payload[64 + LIMIT_CONFIG_NAME_BYTES + 2 * LIMIT_NAME_BYTES];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	if (link->is_lost)
		return;
	spawner_look_up_put(&writer, message);
	if (channel_send(&link->channel, type, 0, (struct text){(char *)payload, writer.len}, NULL,
		    0) == 0)
		flush_soon(link);
}

void spawner_link_removed(struct spawner_link *link, const char *tenant, const char *name)
{
	/* The tenant of user mode without a configuration may have a longer name, and has no kept
	 * homes. */
	if (strlen(tenant) <= LIMIT_CONFIG_NAME_BYTES)
		tell_path(link, SPAWNER_REMOVED,
			&(struct spawner_look_up){
				.tenant = text_from(tenant), .path = text_from(name)});
}

void spawner_link_dropped(
	struct spawner_link *link, bool template, const char *tenant, const char *path)
{
	tell_path(link, SPAWNER_DROPPED,
		&(struct spawner_look_up){
			.below = template, .tenant = text_from(tenant), .path = text_from(path)});
}

void spawner_link_fold(struct spawner_link *link, const char *tenant, const char *path)
{
	tell_path(link, SPAWNER_FOLD,
		&(struct spawner_look_up){.tenant = text_from(tenant), .path = text_from(path)});
}

void spawner_link_measure(struct spawner_link *link, const char *tenant, const char *name)
{
	tell_path(link, SPAWNER_MEASURE,
		&(struct spawner_look_up){.tenant = text_from(tenant), .path = text_from(name)});
}

void spawner_link_hear(struct spawner_link *link,
	void (*worked)(void *context, const struct spawner_worked *message), void *context)
{
	link->worked = worked;
	link->hearer = context;
}

void spawner_link_let_go(struct spawner_link *link, uint64_t number)
{
	if (!link->is_lost && channel_send(&link->channel, SPAWNER_LET_GO, number,
				      (struct text){NULL, 0}, NULL, 0) == 0)
		loop_turn_defer(&link->flush);
}

static struct pending_cell *find_pending(struct spawner_link *link, uint64_t cell)
{
	struct pending_cell *pending;

	LIST_FOREACH (pending, &link->pending, entry)
		if (pending->cell == cell)
			return pending;
	return NULL;
}

/* The request is answered, or has never been sent. Another one may have its turn. */
static void take_out(struct spawner_link *link, struct pending_cell *pending)
{
	LIST_REMOVE(pending, entry);
	fair_queue_end(&link->turns, &pending->turn, now_us());
	channel_frame_done(&pending->frame);
	if (!link->is_lost)
		loop_turn_defer(&link->flush);
}

/* Its requester is told that the request has failed. */
static void fail_pending_cell(
	struct spawner_link *link, struct pending_cell *pending, int error, struct text step)
{
	int none[SPAWNER_OPENED_MOST];

	memset(none, -1, sizeof(none));
	take_out(link, pending);
	if (pending->copied)
		pending->copied(pending->context, error, step);
	else if (pending->looked)
		pending->looked(pending->context, error, -1, NULL);
	else if (pending->answer)
		pending->answer(pending->context, error, step, none);
	free(pending);
}

static void drop_pidfds(struct channel_frame *frame)
{
	for (unsigned i = 0; i < frame->n_fds; i++)
		pidfd_send_signal(frame->fds[i], SIGKILL, NULL, 0);
	channel_frame_done(frame);
}

/* Whether a cell can have @n sockets. */
static bool are_sockets(unsigned n)
{
	return n <= 1 || (n >= CELL_SOCKETS_LEAST && n <= CELL_SOCKETS);
}

static bool is_opened(const struct channel_frame *frame)
{
	unsigned n = frame->n_fds;

	return (frame->type == SPAWNER_ASSIGNED && are_sockets(n)) ||
	       (frame->type == SPAWNER_LOOKED_UP && n == 1) ||
	       (frame->type == SPAWNER_OPENED && n >= SPAWNER_OPENED_FDS &&
		       are_sockets(n - SPAWNER_OPENED_FDS)) ||
	       (frame->type == SPAWNER_FILES_OPENED && n == 1);
}

/* Whether an answer is the one that was asked for, with its descriptors. */
static bool is_answer(const struct pending_cell *pending, const struct channel_frame *frame)
{
	unsigned n = frame->n_fds - pending->n_pidfds;

	if (frame->type != pending->opened || frame->n_fds < pending->n_pidfds)
		return false;
	return pending->sockets ? are_sockets(n) && (n >= CELL_SOCKETS_LEAST) == pending->network
				: n == 0;
}

/* Moves the descriptors of an answer to their places. */
static void place_fds(struct channel_frame *frame, int ret_fds[SPAWNER_OPENED_MOST])
{
	unsigned n_pidfds = frame->type == SPAWNER_OPENED ? SPAWNER_OPENED_FDS : 0;

	if (frame->type == SPAWNER_FILES_OPENED) {
		ret_fds[SPAWNER_OPENED_FILES] = frame->fds[0];
	} else {
		memcpy(ret_fds, frame->fds, n_pidfds * sizeof(int));
		(void)cell_sockets_place(&frame->fds[n_pidfds], frame->n_fds - n_pidfds,
			&ret_fds[SPAWNER_OPENED_SOCKETS]);
	}
	frame->n_fds = 0;
}

/* Passes a look-up's result to its requester. Returns 0 or -EBADMSG. */
static int tell_looked(struct pending_cell *pending, struct channel_frame *frame, int error)
{
	static struct spawner_looked_up where;

	if (error == 0 && spawner_looked_up_get(frame->payload, &where) < 0)
		return -EBADMSG;
	pending->looked(pending->context, error, error == 0 ? TAKE_FD(frame->fds[0]) : -1, &where);
	return 0;
}

/* A copy may take minutes, so that its answer says nothing about whether the spawner hangs. */
static int take_copied(struct spawner_link *link, struct channel_frame *frame)
{
	struct pending_cell *pending = find_pending(link, frame->call);
	struct setup_failure failure;

	if (frame->n_fds > 0 || setup_failure_get(frame->payload, &failure) < 0 ||
		(pending && !pending->copied))
		return -EBADMSG;
	if (!pending)
		return 0;
	take_out(link, pending);
	pending->copied(pending->context, -(int)failure.error, failure.step);
	free(pending);
	return 0;
}

/* The request costs the spawner nothing until its answer. Returns 0 or -EBADMSG. */
static int take_waits(struct spawner_link *link, const struct channel_frame *frame)
{
	struct pending_cell *pending = find_pending(link, frame->call);

	if (frame->n_fds > 0 || frame->payload.len > 0 ||
		(pending && pending->turn.state != FAIR_RUNS))
		return -EBADMSG;
	if (!pending)
		return 0;
	fair_queue_end(&link->turns, &pending->turn, now_us());
	loop_turn_defer(&link->flush);
	return 0;
}

/* Nobody has asked for it. Returns 0 or -EBADMSG. */
static int take_worked(const struct spawner_link *link, const struct channel_frame *frame)
{
	struct spawner_worked message;

	if (frame->n_fds > 0 || frame->call != 0 ||
		spawner_worked_get(frame->payload, &message) < 0)
		return -EBADMSG;
	if (link->worked)
		link->worked(link->hearer, &message);
	return 0;
}

/* Returns 0, or -EBADMSG for a message that the spawner never sends. */
static int handle_spawner_frame(struct spawner_link *link, struct channel_frame *frame)
{
	struct pending_cell *pending = find_pending(link, frame->call);
	struct setup_failure failure = {0};
	int fds[SPAWNER_OPENED_MOST];
	bool opened = is_opened(frame);
	int r = 0;

	if (frame->type == SPAWNER_COPIED)
		return take_copied(link, frame);
	if (frame->type == SPAWNER_WORKED)
		return take_worked(link, frame);
	if (frame->type == SPAWNER_WAITS)
		return take_waits(link, frame);
	memset(fds, -1, sizeof(fds));
	silence_end(&link->silence);
	if (!opened && (frame->type != SPAWNER_OPEN_FAILED || frame->n_fds > 0 ||
			       setup_failure_get(frame->payload, &failure) < 0))
		return -EBADMSG;
	if (pending && (pending->copied || pending->turn.state == FAIR_WAITS))
		return -EBADMSG;
	if (link->unanswered > 0)
		link->unanswered--;
	if (!pending || pending->is_forgotten) {
		if (pending)
			take_out(link, pending);
		free(pending);
		if (frame->type != SPAWNER_LOOKED_UP)
			drop_pidfds(frame);
		if (frame->type == SPAWNER_OPENED)
			spawner_link_let_go(link, frame->call);
		return 0;
	}
	if (opened && !is_answer(pending, frame))
		return -EBADMSG;
	take_out(link, pending);
	if (pending->looked) {
		r = tell_looked(pending, frame, opened ? 0 : -(int)failure.error);
	} else {
		if (opened)
			place_fds(frame, fds);
		pending->answer(
			pending->context, opened ? 0 : -(int)failure.error, failure.step, fds);
	}
	free(pending);
	return r;
}

/* Answers all pending requests. */
static void answer_all(struct spawner_link *link)
{
	struct pending_cell *pending;

	while ((pending = LIST_FIRST(&link->pending)))
		fail_pending_cell(link, pending, -ECONNRESET,
			TEXT_LITERAL("ask cloister-spawner, which has ended"));
}

static void lose_spawner(struct spawner_link *link)
{
	if (link->is_lost)
		return;
	link->is_lost = true;
	watch_want(&link->watch, WATCH_NOTHING);
	loop_turn_cancel(&link->flush);
	timer_cancel(&link->retry);
	timer_cancel(&link->resume);
	timer_cancel(&link->look);
	link->lost(link->context);
	answer_all(link);
}

static void drop_reserve(struct spawner_link *link)
{
	for (size_t i = 0; i < ARRAY_SIZE(link->reserve); i++)
		close_fd(&link->reserve[i]);
}

static int keep_reserve(struct spawner_link *link)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(link->reserve); i++) {
		if (link->reserve[i] < 0)
			link->reserve[i] = fcntl(link->channel.in, F_DUPFD_CLOEXEC, 0);
		if (link->reserve[i] < 0)
			r = -errno;
	}
	return r;
}

static void pause_reading(struct spawner_link *link)
{
	watch_not(&link->watch, WATCH_READABLE);
	timer_set(&link->resume, CHANNEL_SHORT_PAUSE_MS);
}

/*
 * Reads at most the bytes of one frame in a turn. The reserve is made before and closed for the
 * read, so that the answer's descriptors find free numbers. An answer that lost its descriptors
 * would look like an error of the spawner's and end everything.
 */
static void on_spawner_readable(void *context)
{
	struct spawner_link *link = context;
	struct channel_frame frame;
	int filled, r = 0, next;

	if (keep_reserve(link) < 0) {
		pause_reading(link);
		return;
	}
	drop_reserve(link);
	filled = channel_fill(&link->channel, WIRE_FRAME_MAX);
	while (r == 0 && (next = channel_next(&link->channel, &frame)) > 0) {
		r = handle_spawner_frame(link, &frame);
		channel_frame_done(&frame);
	}
	(void)keep_reserve(link);
	if (filled == -ENOMEM) {
		pause_reading(link);
		filled = 0;
	}
	if (r < 0 || next < 0 || (filled < 0 && filled != -EAGAIN))
		lose_spawner(link);
}

static void on_resume(void *context)
{
	struct spawner_link *link = context;

	watch_also(&link->watch, WATCH_READABLE);
}

/* Returns 0 or -errno. Its descriptors are the channel's in either case. */
static int send_now(struct spawner_link *link, struct pending_cell *pending)
{
	const struct channel_frame *frame = &pending->frame;
	int r = channel_send(&link->channel, frame->type, pending->cell, frame->payload, frame->fds,
		frame->n_fds);

	pending->frame.n_fds = 0;
	return r;
}

static void await_answer(struct spawner_link *link)
{
	if (link->unanswered++ == 0)
		silence_end(&link->silence);
	if (!timer_is_set(&link->look))
		timer_set(&link->look, LOOK_MS);
}

/* Sends the requests whose turn it is. */
static void give_turns(struct spawner_link *link)
{
	struct fair_entry *turn;

	while ((turn = fair_queue_next(&link->turns, now_us(), NULL, NULL))) {
		struct pending_cell *pending =
			(struct pending_cell *)((char *)turn - offsetof(struct pending_cell, turn));
		int r = send_now(link, pending);

		if (r < 0)
			fail_pending_cell(link, pending, r, TEXT_LITERAL("ask cloister-spawner"));
		else
			await_answer(link);
	}
}

static void flush_spawner_link(void *context)
{
	struct spawner_link *link = context;
	int r;

	give_turns(link);
	r = channel_flush(&link->channel);
	if (r == -EAGAIN)
		watch_also(&link->watch, WATCH_WRITABLE);
	else
		watch_not(&link->watch, WATCH_WRITABLE);
	if (channel_is_short(r))
		timer_set(&link->retry, CHANNEL_SHORT_PAUSE_MS);
	else if (r < 0 && r != -EAGAIN)
		lose_spawner(link);
}

/*
 * A spawner that hangs is killed, so that it cannot answer later; one that would run and gets no
 * CPU is waited for. Checks are counted instead of time: after a freeze of the whole service only
 * one check is missing. While cloisterd itself lacks descriptors or memory to read answers, the
 * spawner does not count as silent.
 */
static void on_look(void *context)
{
	struct spawner_link *link = context;

	silence_look(&link->silence, LOOK_MS);
	if (link->unanswered == 0 || timer_is_set(&link->resume) || timer_is_set(&link->retry))
		silence_end(&link->silence);
	else if (link->silence.ms >= LIMIT_SPAWNER_SILENT_MS) {
		log_error("cloisterd kills cloister-spawner, which has not answered for %u seconds",
			link->silence.all_ms / 1000);
		kill(link->process.pid, SIGKILL);
		lose_spawner(link);
		return;
	} else if (link->silence.all_ms == LIMIT_SPAWNER_SILENT_MS) {
		log_warning("cloister-spawner has not answered for %d seconds because it gets too "
			    "little CPU time: until it does, no workspace opens",
			LIMIT_SPAWNER_SILENT_MS / 1000);
	}
	if (link->unanswered > 0)
		timer_set(&link->look, LOOK_MS);
}

int spawner_link_watch(struct spawner_link *link, struct event_base *base,
	void (*lost)(void *context), void *context)
{
	static const struct watch_calls calls = {
		{on_spawner_readable, flush_spawner_link}, LOOP_PRIORITY_NORMAL};
	int r;

	link->lost = lost;
	link->context = context;
	link->flush = (struct loop_turn_task){.act = flush_spawner_link, .context = link};
	timer_init(&link->retry, flush_spawner_link, link);
	timer_init(&link->resume, on_resume, link);
	timer_init(&link->look, on_look, link);
	r = watch_init(&link->watch, base, link->channel.in, &calls, link);
	if (r == 0)
		r = log_relay_watch(link->process.log, base);
	if (r < 0)
		return r;
	watch_want(&link->watch, WATCH_READABLE);
	flush_soon(link);
	return keep_reserve(link);
}

int spawner_link_ask(struct spawner_link *link, const struct channel_frame *frame,
	const struct pending_cell *who, struct text tenant, uint64_t *ret_number)
{
	struct pending_cell *pending =
		link->is_lost ? NULL : malloc(sizeof(*pending) + frame->payload.len);
	int r;

	if (!pending) {
		for (unsigned i = 0; i < frame->n_fds; i++)
			close(frame->fds[i]);
		return link->is_lost ? -ECONNRESET : -ENOMEM;
	}
	*pending = *who;
	pending->frame = *frame;
	pending->frame.payload.data =
		memcpy(pending->payload, frame->payload.data, frame->payload.len);
	/*
	 * Numbers of cells name their cgroups and count up; others count down from the other end.
	 */
	pending->cell = frame->type == SPAWNER_LOOK_UP || who->copied
				? UINT64_MAX - link->last_look++
				: ++link->last_cell;
	r = pending->copied ? send_now(link, pending)
			    : fair_queue_add(&link->turns, &pending->turn, tenant);
	if (r < 0) {
		channel_frame_done(&pending->frame);
		free(pending);
		return r;
	}
	LIST_INSERT_HEAD(&link->pending, pending, entry);
	loop_turn_defer(&link->flush);
	*ret_number = pending->cell;
	return 0;
}

void spawner_link_forget(struct spawner_link *link, uint64_t cell)
{
	struct pending_cell *pending = find_pending(link, cell);

	if (!pending)
		return;
	/* The spawner still works on it, or will. */
	if (pending->turn.state == FAIR_RUNS) {
		pending->is_forgotten = true;
		pending->answer = NULL;
		pending->looked = NULL;
		return;
	}
	take_out(link, pending);
	free(pending);
}

size_t spawner_link_waiting(const struct spawner_link *link, const char *tenant)
{
	return fair_queue_waiting(&link->turns, text_from(tenant));
}

void spawner_link_free(struct spawner_link *link)
{
	struct pending_cell *pending;

	if (!link)
		return;
	while ((pending = LIST_FIRST(&link->pending))) {
		take_out(link, pending);
		free(pending);
	}
	watch_done(&link->watch);
	loop_turn_cancel(&link->flush);
	timer_cancel(&link->retry);
	timer_cancel(&link->resume);
	timer_cancel(&link->look);
	drop_reserve(link);
	channel_done(&link->channel);
	silence_close(&link->silence);
	helper_process_end(&link->process);
	free(link);
}
