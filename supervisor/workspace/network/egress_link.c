// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. egress/PROTOCOL has the order of the messages. unix(7). */
#include "supervisor/workspace/network/egress_link.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/fixed_fds.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/log.h"
#include "supervisor/base/log_relay.h"
#include "supervisor/workspace/network/egress_cell_state.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

_Static_assert(FD_EGRESS_CHANNEL == 3, "helper_process_start() gives it");

static struct egress_cell *find_cell(const struct egress_link *link, uint64_t number)
{
	struct egress_cell *cell;

	LIST_FOREACH (cell, &link->numbered[number % EGRESS_CELL_LISTS], numbered)
		if (cell->number == number)
			return cell;
	return NULL;
}

/*
 * Tells of the cells that it does not know, some at a time: all of them are more than may wait, and
 * so are their descriptors.
 */
static void tell_cells(struct egress_link *link)
{
	struct egress_cell *cell;

	link->has_untold = false;
	LIST_FOREACH (cell, &link->cells, entry) {
		if (cell->state != EGRESS_CELL_UNKNOWN)
			continue;
		link->has_untold = channel_waiting(&link->channel) > LIMIT_EGRESS_TOLD_BYTES;
		if (link->has_untold)
			return;
		egress_cell_tell(cell);
	}
}

/* What cloister-egress says. @cell is NULL if it has ended: the messages have crossed. */

static int on_ready(struct egress_link *link, struct egress_cell *none, struct text payload)
{
	struct egress_ready message;

	(void)none;
	if (link->ready || egress_ready_get(payload, &message) < 0)
		return -EBADMSG;
	link->ready = true;
	tell_cells(link);
	return 0;
}

static int on_opened(struct egress_link *link, struct egress_cell *cell, struct text payload)
{
	(void)link;
	(void)cell;
	return payload.len == 0 ? 0 : -EBADMSG;
}

static int on_open_failed(struct egress_link *link, struct egress_cell *cell, struct text payload)
{
	struct egress_open_failed message;
	char why[LIMIT_EGRESS_REASON_BYTES];

	(void)link;
	if (egress_open_failed_get(payload, &message) < 0)
		return -EBADMSG;
	if (!cell)
		return 0;
	snprintf(why, sizeof(why), "%.*s", (int)message.reason.len,
		message.reason.data ? message.reason.data : "");
	egress_cell_refuse(cell, why);
	return 0;
}

static void deny(
	struct egress_cell *cell, struct network_use *use, const struct egress_denied *denied)
{
	const struct egress_observer *observer = cell->link->observer;

	if (use)
		network_use_deny(use, denied);
	if (observer)
		observer->denied(observer->context, cell, denied);
}

static int on_denied(struct egress_link *link, struct egress_cell *cell, struct text payload)
{
	struct egress_denied message;

	(void)link;
	if (egress_denied_get(payload, &message) < 0)
		return -EBADMSG;
	if (cell)
		deny(cell, egress_cell_use(cell, message.call), &message);
	return 0;
}

static int on_closed(struct egress_link *link, struct egress_cell *cell, struct text payload)
{
	struct egress_closed message;
	struct network_use *use;

	if (egress_closed_get(payload, &message) < 0)
		return -EBADMSG;
	if (!cell)
		return 0;
	use = egress_cell_use(cell, message.call);
	if (use)
		network_use_close(use, &message);
	if (link->observer)
		link->observer->closed(link->observer->context, cell, &message);
	return 0;
}

static int on_call_ended(struct egress_link *link, struct egress_cell *cell, struct text payload)
{
	struct egress_call_ended message;
	struct network_use *use;

	(void)link;
	if (egress_call_ended_get(payload, &message) < 0)
		return -EBADMSG;
	use = cell ? egress_cell_use(cell, message.call) : NULL;
	if (!use)
		return 0;
	network_use_sum(use, &message);
	egress_use_over(use);
	return 0;
}

static int on_filtered(struct egress_link *link, struct egress_cell *none, struct text payload)
{
	struct egress_filtered message;

	(void)none;
	if (egress_filtered_get(payload, &message) < 0)
		return -EBADMSG;
	snprintf(link->filtered, sizeof(link->filtered), "%.*s", (int)message.networks.len,
		message.networks.data ? message.networks.data : "");
	return 0;
}

static int handle_egress_frame(struct egress_link *link, const struct channel_frame *frame)
{
	static int (*const handlers[])(struct egress_link *, struct egress_cell *, struct text) = {
		[EGRESS_READY] = on_ready,
		[EGRESS_OPENED] = on_opened,
		[EGRESS_OPEN_FAILED] = on_open_failed,
		[EGRESS_DENIED] = on_denied,
		[EGRESS_CLOSED] = on_closed,
		[EGRESS_CALL_ENDED] = on_call_ended,
		[EGRESS_FILTERED] = on_filtered,
	};

	if (frame->type >= ARRAY_SIZE(handlers) || !handlers[frame->type] || frame->n_fds > 0 ||
		(!link->ready && frame->type != EGRESS_READY))
		return -EBADMSG;
	return handlers[frame->type](link, find_cell(link, frame->call), frame->payload);
}

/* Its calls are told that connections were lost, and learn no more. */
static void forget_uses(struct egress_cell *cell)
{
	struct network_use *use, *next;

	for (use = LIST_FIRST(&cell->uses); use; use = next) {
		next = LIST_NEXT(use, entry);
		deny(cell, use,
			&(struct egress_denied){.call = use->call, .reason = EGRESS_PROXY_LOST});
		if (use->is_ending)
			egress_use_over(use);
	}
}

static void disconnect(struct egress_link *link)
{
	watch_done(&link->watch);
	timer_cancel(&link->retry);
	loop_turn_cancel(&link->flush);
	loop_share_cancel(&link->share);
	hostile_channel_done(&link->channel);
	link->has_channel = link->ready = link->is_torn = link->has_untold = false;
	link->more = false;
	link->filtered[0] = '\0';
}

/* The connection has ended, or was broken. The cells' sockets wait for the next one, if one can
 * come. */
static void lose(struct egress_link *link, const char *why)
{
	struct egress_cell *cell;

	if (!link->has_channel)
		return;
	log_warning("the connection to cloister-egress has ended%s%s: %s", *why ? ": " : "", why,
		link->listener >= 0 ? "connections of workspaces wait until it connects again"
		: link->is_retired  ? "what still runs here has no network any more"
				    : "workspaces have no network until cloisterd is restarted");
	disconnect(link);
	link->gone = link->listener < 0;
	if (link->gone && link->process.pid > 0)
		kill(link->process.pid, SIGKILL);
	LIST_FOREACH (cell, &link->cells, entry) {
		if (link->gone || cell->state == EGRESS_CELL_REFUSED)
			egress_cell_refuse(cell, NULL);
		else
			cell->state = EGRESS_CELL_UNKNOWN;
		forget_uses(cell);
	}
}

static void watch_connections(struct egress_link *link)
{
	if (link->listener >= 0)
		watch_want(&link->connections,
			link->paused || timer_is_set(&link->rest) ? WATCH_NOTHING : WATCH_READABLE);
}

static void on_rested(void *context)
{
	watch_connections(context);
}

static void rest(struct egress_link *link)
{
	timer_set(&link->rest, LIMIT_DEAR_CELL_MS);
	watch_connections(link);
}

/*
 * System calls have ended that may wake the other end. Returns whether the connection is lost
 * because they cost too much: a cloister-egress that was taken over may have any number of waiters
 * there.
 */
static bool is_dear(struct egress_link *link)
{
	if (!wake_cost_add(&link->cost, wake_cost_stop()))
		return false;
	link->cost = (struct wake_cost_sum){0};
	rest(link);
	lose(link, "system calls on it took too much CPU time, since its other end has too many "
		   "waiters, such as watches of epoll(7)");
	return true;
}

/* Reads what has come, or goes on with what was read: one slice. */
static void take_frames(void *context)
{
	struct egress_link *link = context;
	struct channel_frame frame;
	unsigned frames = 0;
	int r = 0, next = 0, filled = 1;

	if (!link->more) {
		wake_cost_begin();
		filled = channel_fill(&link->channel, WIRE_FRAME_MAX);
		if (is_dear(link))
			return;
	}
	link->more = false;
	while (r == 0 && !link->more && (next = channel_next(&link->channel, &frame)) > 0) {
		r = handle_egress_frame(link, &frame);
		channel_frame_done(&frame);
		link->more = ++frames >= LIMIT_SLICE_FRAMES || loop_share_is_used_up();
	}
	if (r < 0 || next < 0)
		lose(link, "it has sent what no cloister-egress sends");
	else if (filled < 0 && filled != -EAGAIN && filled != -ENOMEM && !link->more)
		lose(link, filled == -EPIPE ? "" : strerror(-filled));
	if (!link->has_channel)
		return;
	if (!link->more) {
		watch_also(&link->watch, WATCH_READABLE);
		return;
	}
	watch_not(&link->watch, WATCH_READABLE);
	loop_share_go_on(&link->share, loop_share_of_nobody());
}

/* It serves all tenants, and takes the share of none of them. */
static void on_egress_readable(void *context)
{
	struct egress_link *link = context;

	if (loop_share_now_or_wait(&link->share, loop_share_of_nobody()))
		loop_turn_end();
	else
		watch_not(&link->watch, WATCH_READABLE);
}

static void flush_egress_link(void *context)
{
	struct egress_link *link = context;
	int r = -ENOMEM;

	if (!link->is_torn) {
		wake_cost_begin();
		r = channel_flush(&link->channel);
		if (is_dear(link))
			return;
	}
	if (r == -EAGAIN)
		watch_also(&link->watch, WATCH_WRITABLE);
	else
		watch_not(&link->watch, WATCH_WRITABLE);
	if (channel_is_short(r) && !link->is_torn)
		timer_set(&link->retry, CHANNEL_SHORT_PAUSE_MS);
	else if (r < 0 && r != -EAGAIN)
		lose(link, strerror(-r));
	else if (channel_waiting(&link->channel) > LIMIT_EGRESS_WAITING_BYTES)
		lose(link, "it does not read");
	else if (r == 0 && link->has_untold)
		tell_cells(link);
}

static int connect_channel(struct egress_link *link, int fd)
{
	static const struct watch_calls calls = {
		{on_egress_readable, flush_egress_link}, LOOP_PRIORITY_BULK};
	int r;

	link->has_channel = true;
	r = hostile_channel_init(&link->channel, fd, fd);
	if (r == 0)
		r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0)
		r = watch_init(&link->watch, link->base, fd, &calls, link);
	if (r == 0)
		watch_want(&link->watch, WATCH_READABLE);
	return r;
}

/* Only its user may be the peer. The newest connection counts: an older one is of a process that
 * ends. */
static void on_connection(void *context)
{
	struct egress_link *link = context;
	_cleanup_close_ int fd = accept4(link->listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != link->uid) {
		wake_cost_begin();
		close_fd(&fd);
		if (wake_cost_add(&link->cost_of_others, wake_cost_stop()))
			rest(link);
		if (link->refused++ < LIMIT_REFUSALS_LOGGED)
			log_warning("a process of uid %u, which is not cloister-egress's, has "
				    "connected to its socket",
				(unsigned)peer.uid);
		return;
	}
	lose(link, "another has connected");
	if (connect_channel(link, TAKE_FD(fd)) < 0)
		lose(link, "out of memory");
	else
		log_info("cloister-egress has connected");
}

int egress_link_start(const struct egress_start *start, struct egress_link **ret)
{
	char *const argv[] = {(char *)"cloister-egress", (char *)"user",
		(char *)(start->config ? start->config : ""),
		(char *)(start->allow ? start->allow : ""), NULL};
	struct egress_link *link = calloc(1, sizeof(*link));
	int fd, r = 0;

	if (!link)
		return -ENOMEM;
	LIST_INIT(&link->cells);
	link->flush = (struct loop_turn_task){.act = flush_egress_link, .context = link};
	link->share = (struct loop_share_task){.act = take_frames, .context = link};
	timer_init(&link->retry, flush_egress_link, link);
	timer_init(&link->rest, on_rested, link);
	link->listener = start->listener;
	link->uid = start->uid;
	if (start->listener < 0)
		r = helper_process_start(&link->process, argv[0], argv, NULL, 0, &fd);
	if (r < 0) {
		helper_process_end(&link->process);
		free(link);
		return r;
	}
	if (start->listener < 0) {
		channel_init(&link->channel, fd, fd, 0);
		link->has_channel = true;
	}
	*ret = link;
	return 0;
}

int egress_link_watch(
	struct egress_link *link, struct event_base *base, const struct egress_observer *observer)
{
	static const struct watch_calls calls = {{on_connection, NULL}, LOOP_PRIORITY_NORMAL};
	int r;

	link->base = base;
	link->observer = observer;
	if (link->listener < 0) {
		r = connect_channel(link, link->channel.in);
		return r < 0 ? r : log_relay_watch(link->process.log, base);
	}
	r = watch_init(&link->connections, base, link->listener, &calls, link);
	if (r == 0)
		watch_want(&link->connections, WATCH_READABLE);
	return r;
}

void egress_link_reload(struct egress_link *link)
{
	if (link && link->ready)
		egress_cell_send(link, EGRESS_RELOAD, 0, (struct text){NULL, 0}, NULL, 0);
}

void egress_link_pause(struct egress_link *link, bool pause)
{
	if (!link)
		return;
	link->paused = pause;
	watch_connections(link);
}

void egress_link_retire(struct egress_link *link)
{
	struct egress_cell *cell;

	if (!link || link->listener < 0)
		return;
	watch_done(&link->connections);
	timer_cancel(&link->rest);
	link->listener = -1;
	link->is_retired = true;
	egress_cell_send(link, EGRESS_RETIRED, 0, (struct text){NULL, 0}, NULL, 0);
	link->gone = !link->has_channel;
	if (link->gone)
		LIST_FOREACH (cell, &link->cells, entry)
			egress_cell_refuse(cell, NULL);
}

bool egress_link_is_ready(const struct egress_link *link)
{
	return link && link->ready;
}

const char *egress_link_filtered(const struct egress_link *link)
{
	return egress_link_is_ready(link) ? link->filtered : NULL;
}

void egress_link_free(struct egress_link *link)
{
	if (!link)
		return;
	assert(LIST_EMPTY(&link->cells));
	if (link->has_channel)
		disconnect(link);
	watch_done(&link->connections);
	timer_cancel(&link->rest);
	helper_process_end(&link->process);
	free(link);
}
