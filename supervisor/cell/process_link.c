// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. unix(7), pidfd_open(2). */
#include "supervisor/cell/process_link.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "common/wake_cost.h"
#include "supervisor/base/fd_closer.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/base/timer.h"
#include "supervisor/base/watch.h"
#include "supervisor/schedule/loop_share.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct process_link {
	struct event_base *base;
	struct process_link_owner owner;
	struct channel channel;
	int pidfd;
	uint64_t heard; /* sent bytes that the process is known to have read */
	uint64_t asked; /* how far heard is of interest: the last result of process_link_said() */
	bool lost, gone;
	bool more;      /* a slice has ended before the frames that were read */
	size_t counted; /* memory of the channel that is counted in waiting */
	/*
	 * Memory of an incomplete frame, counted in held; and the list of links that have one, the
	 * oldest first.
	 */
	size_t held_bytes;
	TAILQ_ENTRY(process_link) holding;
	struct loop_turn_task flush;
	struct loop_share_task share; /* reads results */
	struct watch readable;        /* the channel's upward socket */
	struct watch writable;        /* its downward socket */
	struct watch ended;           /* the pidfd */
	struct timer retry;
};

static uint64_t waiting; /* bytes for all processes */
static uint64_t held;    /* bytes of all processes */
static TAILQ_HEAD(, process_link) holders = TAILQ_HEAD_INITIALIZER(holders);

uint64_t process_links_waiting(void)
{
	return waiting;
}

static void count_as(struct process_link *link, size_t now)
{
	uint64_t *of_owner = link->owner.unread(link->owner.context);

	waiting += now;
	waiting -= link->counted;
	*of_owner += now;
	*of_owner -= link->counted;
	link->counted = now;
}

static void count_link_unread(struct process_link *link)
{
	count_as(link, channel_waiting_memory(&link->channel));
}

/* A pipe of a command, of which the command may already hold the lock. */
static void close_sent(void *context, int fd)
{
	const struct process_link *link = context;
	struct shared_fd_threads *threads = link->owner.share(link->owner.context)->threads;
	struct shared_fd_sum *sum = link->owner.sum(link->owner.context);

	if (threads)
		shared_fd_close_only(threads, sum, fd);
	else
		close(fd);
}

int process_link_new(struct event_base *base, const struct process_link_owner *owner,
	struct process_link **ret, int ret_child_fds[2])
{
	_cleanup_free_ struct process_link *link = calloc(1, sizeof(*link));
	int down[2], up[2], r;

	if (!link)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down) < 0)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, up) < 0) {
		close(down[0]);
		close(down[1]);
		return -errno;
	}
	/* A process that sends on this socket gets EPIPE, and its descriptors stay its own. */
	shutdown(down[0], SHUT_RD);
	shutdown(up[0], SHUT_WR);
	fcntl(down[0], F_SETFL, O_NONBLOCK);
	fcntl(up[0], F_SETFL, O_NONBLOCK);
	link->base = base;
	link->owner = *owner;
	link->pidfd = -1;
	r = hostile_channel_init(&link->channel, up[0], down[0]);
	if (r < 0) {
		channel_done(&link->channel); /* nobody has the other ends yet */
		close(down[1]);
		close(up[1]);
		return r;
	}
	link->channel.close_sent = close_sent;
	link->channel.context = link;
	ret_child_fds[0] = down[1];
	ret_child_fds[1] = up[1];
	*ret = TAKE_PTR(link);
	return 0;
}

/* With @whole, frames have ended and the present one began after them. */
static void count_held(struct process_link *link, bool whole)
{
	/* Whole frames wait for cloisterd. At most one link of a flow has such. */
	size_t now = link->more ? 0 : channel_held(&link->channel);

	if (link->held_bytes > 0 && (now == 0 || whole))
		TAILQ_UNLINK(&holders, link, holding);
	if (now > 0 && (link->held_bytes == 0 || whole))
		TAILQ_LINK_TAIL(&holders, link, holding);
	held += now;
	held -= link->held_bytes;
	link->held_bytes = now;
}

static void lose_process(struct process_link *link)
{
	if (link->lost)
		return;
	link->lost = true;
	link->more = false;
	channel_drop_held(&link->channel);
	count_held(link, false);
	process_link_kill(link);
	watch_want(&link->readable, WATCH_NOTHING);
	watch_want(&link->writable, WATCH_NOTHING);
	timer_cancel(&link->retry);
	loop_turn_cancel(&link->flush);
	loop_share_cancel(&link->share);
	link->owner.lost(link->owner.context);
}

/* A process that was taken over can have as many waiters at its ends as a client. */
static void charge_link_cost(struct process_link *link)
{
	const int64_t ns = wake_cost_stop();

	if (ns > 0)
		shared_fd_sum_charge(link->owner.share(link->owner.context)->threads,
			link->owner.sum(link->owner.context), ns);
}

/*
 * Counts the memory of an incomplete frame. An honest process completes a frame that it has begun.
 * If the memory for all of them runs out, the process that has kept one incomplete for the longest
 * time is killed.
 */
static void hold_process_link(struct process_link *link, bool whole)
{
	/* While there is much room, trimming is not worth the copy. */
	if (held > LIMIT_FRAMES_HELD_BYTES / 2)
		channel_trim_held(&link->channel);
	count_held(link, whole);
	while (held > LIMIT_FRAMES_HELD_BYTES)
		lose_process(TAILQ_FIRST(&holders));
}

/*
 * Reads once, and not before all frames of the last time are handled, so that a process that floods
 * gets no more than its share. A slice ends also within what was read.
 */
static void take_frames(struct process_link *link)
{
	struct channel_frame frame;
	bool whole = false;
	unsigned frames = 0;
	int filled = 1, next = 0;

	if (!link->more) {
		wake_cost_begin();
		filled = channel_fill(&link->channel, WIRE_FRAME_MAX);
		charge_link_cost(link);
	}
	link->more = false;
	while (!link->more && (next = channel_next(&link->channel, &frame)) > 0) {
		whole = true;
		if (link->owner.frame(link->owner.context, &frame) < 0) {
			next = -EBADMSG;
			break;
		}
		link->more = ++frames >= LIMIT_SLICE_FRAMES || loop_share_is_used_up();
	}
	/* What was read is handled also if nothing more can come. */
	if (next < 0 || (filled < 0 && filled != -EAGAIN && !link->more))
		lose_process(link);
	else
		hold_process_link(link, whole);
}

/* Handles the frames that were read. */
static void take_all(struct process_link *link)
{
	while (link->more)
		take_frames(link);
}

/* Handles what the process wrote before it ended or stopped reading. */
static void drain_and_drop(struct process_link *link)
{
	take_all(link);
	if (!link->lost)
		take_frames(link);
	take_all(link);
	lose_process(link);
}

static void take_turn(void *context)
{
	struct process_link *link = context;

	take_frames(link);
	if (link->lost)
		return;
	if (link->more)
		loop_share_go_on(&link->share, link->owner.share(link->owner.context));
	watch_want(&link->readable, link->more ? WATCH_NOTHING : WATCH_READABLE);
}

/* All processes of a tenant share the tenant's slices. */
static void on_process_readable(void *context)
{
	struct process_link *link = context;

	if (loop_share_now_or_wait(&link->share, link->owner.share(link->owner.context)))
		loop_turn_end();
	else
		watch_want(&link->readable, WATCH_NOTHING);
}

/* SIOCOUTQ counts memory, not bytes: only 0 is exact, and it means that everything was read. */
static void look_how_much_is_heard(struct process_link *link)
{
	int unread;

	if (ioctl(link->channel.out, SIOCOUTQ, &unread) == 0 && unread == 0)
		link->heard = link->channel.sent_bytes;
}

uint64_t process_link_said(struct process_link *link)
{
	link->asked = link->channel.queued_bytes;
	return link->asked;
}

bool process_link_has_heard(struct process_link *link, uint64_t said)
{
	if (link->heard < said)
		look_how_much_is_heard(link);
	return link->heard >= said;
}

static void flush_process_link(void *context)
{
	struct process_link *link = context;
	int r;

	/* If requests are sent all the time, this is the only place that checks what the process
	 * has read. */
	if (link->heard < link->asked)
		look_how_much_is_heard(link);
	wake_cost_begin();
	r = channel_flush(&link->channel);
	count_link_unread(link);
	charge_link_cost(link);
	watch_want(&link->writable, r == -EAGAIN ? WATCH_WRITABLE : WATCH_NOTHING);
	if (channel_is_short(r))
		timer_set(&link->retry, CHANNEL_SHORT_PAUSE_MS);
	else if (r < 0 && r != -EAGAIN)
		drain_and_drop(link);
}

static void on_process_ended(void *context)
{
	struct process_link *link = context;

	watch_want(&link->ended, WATCH_NOTHING);
	drain_and_drop(link);
	link->gone = true;
	link->owner.gone(link->owner.context);
}

bool process_link_is_gone(const struct process_link *link)
{
	return !link || link->pidfd < 0 || link->gone;
}

int process_link_started(struct process_link *link, int pidfd)
{
	static const struct watch_calls read_calls = {
		{on_process_readable, NULL}, LOOP_PRIORITY_BULK};
	static const struct watch_calls write_calls = {
		{NULL, flush_process_link}, LOOP_PRIORITY_NORMAL};
	static const struct watch_calls end_calls = {
		{on_process_ended, NULL}, LOOP_PRIORITY_NORMAL};

	link->pidfd = pidfd;
	link->flush = (struct loop_turn_task){.act = flush_process_link, .context = link};
	link->share = (struct loop_share_task){.act = take_turn, .context = link};
	timer_init(&link->retry, flush_process_link, link);
	/* First, so that the end of a process that is dropped for lack of memory is noticed. */
	if (watch_init(&link->ended, link->base, pidfd, &end_calls, link) < 0)
		return -ENOMEM;
	watch_want(&link->ended, WATCH_READABLE);
	if (watch_init(&link->readable, link->base, link->channel.in, &read_calls, link) < 0 ||
		watch_init(&link->writable, link->base, link->channel.out, &write_calls, link) < 0)
		return -ENOMEM;
	watch_want(&link->readable, WATCH_READABLE);
	return 0;
}

void process_link_send(struct process_link *link, uint8_t type, uint64_t call, struct text payload,
	const int *fds, unsigned n_fds)
{
	bool idle = channel_waiting(&link->channel) == 0;
	int r = channel_send(&link->channel, type, call, payload, fds, n_fds);

	count_link_unread(link);
	if (link->lost)
		return;
	/*
	 * Frames are sent at the end of the turn, together with later ones; a failure shows there.
	 * A process that answers but does not read its requests is hostile.
	 */
	if (r < 0 || channel_waiting(&link->channel) > LIMIT_PROCESS_LINK_WAITING_BYTES)
		process_link_kill(link);
	else if (idle)
		loop_turn_defer(&link->flush);
}

void process_link_adopt(struct process_link *link, const struct process_link_owner *owner)
{
	count_as(link, 0);
	link->owner = *owner;
	count_link_unread(link);
}

int process_link_pidfd(const struct process_link *link)
{
	return link->pidfd;
}

void process_link_kill(struct process_link *link)
{
	if (link->pidfd >= 0)
		pidfd_send_signal(link->pidfd, SIGKILL, NULL, 0);
}

void process_link_wait(struct process_link *link, int milliseconds)
{
	struct pollfd poll_fd = {.events = POLLIN};

	if (!link || link->pidfd < 0)
		return;
	poll_fd.fd = link->pidfd;
	(void)poll(&poll_fd, 1, milliseconds);
}

void process_link_free(struct process_link *link)
{
	if (!link)
		return;
	process_link_kill(link);
	loop_turn_cancel(&link->flush);
	loop_share_cancel(&link->share);
	watch_done(&link->readable);
	watch_done(&link->writable);
	watch_done(&link->ended);
	timer_cancel(&link->retry);
	count_as(link, 0);
	channel_drop_held(&link->channel);
	count_held(link, false);
	hostile_channel_done(&link->channel);
	close_fd(&link->pidfd);
	free(link);
}
