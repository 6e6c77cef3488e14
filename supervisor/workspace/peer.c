// SPDX-License-Identifier: Apache-2.0
/* cloisterd. unix(7), pipe(7), pidfd_open(2). */
#include "supervisor/workspace/peer.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/schedule/loop_share.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct peer {
	struct event_base *base;
	struct peer_owner owner;
	struct channel channel;
	int pidfd;
	uint64_t heard; /* of what was sent: bytes that it has read, as far as was looked */
	uint64_t asked; /* how far anybody wants to know it: the last of peer_said() */
	bool lost, gone;
	size_t counted; /* of the channel's waiting memory, in waiting */
	/* The block of a frame that has not come whole, in held; and who has one, for the longest
	 * first. */
	size_t held_bytes;
	TAILQ_ENTRY(peer) holding;
	struct loop_turn_task flush;
	struct loop_share_task share; /* reads */
	struct event *readable;
	struct event *writable;
	struct event *retry;
	struct event *ended;
};

static uint64_t waiting; /* for all peers */
static uint64_t held;    /* of all */
static TAILQ_HEAD(, peer) holders = TAILQ_HEAD_INITIALIZER(holders);

uint64_t peers_waiting(void)
{
	return waiting;
}

static void count(struct peer *peer)
{
	size_t now = channel_waiting_memory(&peer->channel);

	waiting += now;
	waiting -= peer->counted;
	peer->counted = now;
}

int peer_new(struct event_base *base, const struct peer_owner *owner, struct peer **ret,
	int ret_child_fds[2])
{
	_cleanup_free_ struct peer *peer = calloc(1, sizeof(*peer));
	int down[2], up[2];

	if (!peer)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down) < 0)
		return -errno;
	if (pipe2(up, O_CLOEXEC) < 0) {
		close(down[0]);
		close(down[1]);
		return -errno;
	}
	/* A peer that sends up the socket gets EPIPE, and its descriptors stay its own. */
	shutdown(down[0], SHUT_RD);
	fcntl(down[0], F_SETFL, O_NONBLOCK);
	fcntl(up[0], F_SETFL, O_NONBLOCK);
	peer->base = base;
	peer->owner = *owner;
	peer->pidfd = -1;
	channel_init(&peer->channel, up[0], down[0], 0);
	ret_child_fds[0] = down[1];
	ret_child_fds[1] = up[1];
	*ret = TAKE_PTR(peer);
	return 0;
}

/* @whole: frames ended, and what is held now began after them. */
static void count_held(struct peer *peer, bool whole)
{
	size_t now = channel_held(&peer->channel);

	if (peer->held_bytes > 0 && (now == 0 || whole))
		TAILQ_REMOVE(&holders, peer, holding);
	if (now > 0 && (peer->held_bytes == 0 || whole))
		TAILQ_INSERT_TAIL(&holders, peer, holding);
	held += now;
	held -= peer->held_bytes;
	peer->held_bytes = now;
}

static void lose(struct peer *peer)
{
	if (peer->lost)
		return;
	peer->lost = true;
	channel_drop_held(&peer->channel);
	count_held(peer, false);
	peer_kill(peer);
	event_del(peer->readable);
	event_del(peer->writable);
	loop_turn_cancel(&peer->flush);
	loop_share_cancel(&peer->share);
	peer->owner.lost(peer->owner.context);
}

/*
 * Counts the frame that has not come whole. A process ends a frame that it has begun, so who has
 * been holding one for the longest while others fill up what there is for all is one that lies.
 */
static void hold(struct peer *peer, bool whole)
{
	/* While there is much room it is not worth the copy. */
	if (held > LIMIT_FRAMES_HELD_BYTES / 2)
		channel_trim_held(&peer->channel);
	count_held(peer, whole);
	while (held > LIMIT_FRAMES_HELD_BYTES)
		lose(TAILQ_FIRST(&holders));
}

/* One read a turn: a peer that floods gets its share and no more. */
static void take_frames(struct peer *peer)
{
	struct channel_frame frame;
	bool whole = false;
	int filled, next;

	filled = channel_fill(&peer->channel, WIRE_FRAME_MAX);
	while ((next = channel_next(&peer->channel, &frame)) > 0) {
		whole = true;
		if (peer->owner.frame(peer->owner.context, &frame) < 0) {
			next = -EBADMSG;
			break;
		}
	}
	if (next < 0 || (filled < 0 && filled != -EAGAIN))
		lose(peer);
	else
		hold(peer, whole);
}

/* What it wrote before it ended, or stopped listening, still counts. */
static void drain_and_drop(struct peer *peer)
{
	if (!peer->lost)
		take_frames(peer);
	lose(peer);
}

static void take_turn(void *context)
{
	struct peer *peer = context;

	take_frames(peer);
	if (!peer->lost)
		event_add(peer->readable, NULL);
}

/* All that flood for one tenant have its turns together, and no more of them than it alone. */
static void on_readable(evutil_socket_t fd, short what, void *context)
{
	struct peer *peer = context;

	(void)fd;
	(void)what;
	if (loop_share_now_or_wait(&peer->share, peer->owner.share(peer->owner.context)))
		loop_turn_end();
	else
		event_del(peer->readable);
}

/* What a socket says is unread counts more than bytes: nothing is all that it is asked for. */
static void look_how_much_is_heard(struct peer *peer)
{
	int unread;

	if (ioctl(peer->channel.out, SIOCOUTQ, &unread) == 0 && unread == 0)
		peer->heard = peer->channel.sent_bytes;
}

uint64_t peer_said(struct peer *peer)
{
	peer->asked = peer->channel.queued_bytes;
	return peer->asked;
}

bool peer_has_heard(struct peer *peer, uint64_t said)
{
	if (peer->heard < said)
		look_how_much_is_heard(peer);
	return peer->heard >= said;
}

static void flush(void *context)
{
	struct peer *peer = context;
	int r;

	/* Before there is more to be read: of a peer that always has something, this is when. */
	if (peer->heard < peer->asked)
		look_how_much_is_heard(peer);
	r = channel_flush(&peer->channel);

	count(peer);
	if (r == -EAGAIN)
		event_add(peer->writable, NULL);
	else if (channel_is_short(r))
		event_add(peer->retry, &channel_short_pause);
	else if (r < 0)
		drain_and_drop(peer);
}

static void on_writable(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	flush(context);
}

static void on_retry(evutil_socket_t fd, short what, void *context)
{
	struct peer *peer = context;

	(void)fd;
	(void)what;
	if (!peer->lost)
		flush(peer);
}

static void on_ended(evutil_socket_t fd, short what, void *context)
{
	struct peer *peer = context;

	(void)fd;
	(void)what;
	drain_and_drop(peer);
	peer->gone = true;
	peer->owner.gone(peer->owner.context);
}

bool peer_is_gone(const struct peer *peer)
{
	return !peer || peer->pidfd < 0 || peer->gone;
}

int peer_started(struct peer *peer, int pidfd)
{
	peer->pidfd = pidfd;
	peer->flush = (struct loop_turn_task){.act = flush, .context = peer};
	peer->share = (struct loop_share_task){.act = take_turn, .context = peer};
	peer->readable =
		event_new(peer->base, peer->channel.in, EV_READ | EV_PERSIST, on_readable, peer);
	peer->writable = event_new(peer->base, peer->channel.out, EV_WRITE, on_writable, peer);
	peer->ended = event_new(peer->base, pidfd, EV_READ, on_ended, peer);
	peer->retry = event_new(peer->base, -1, 0, on_retry, peer);
	if (!peer->readable || !peer->writable || !peer->ended || !peer->retry)
		return -ENOMEM;
	if (event_priority_set(peer->readable, LOOP_PRIORITY_BULK) < 0 ||
		event_add(peer->readable, NULL) < 0 || event_add(peer->ended, NULL) < 0)
		return -EIO;
	return 0;
}

void peer_send(struct peer *peer, uint8_t type, uint64_t call, struct text payload, const int *fds,
	unsigned n_fds)
{
	bool idle = channel_waiting(&peer->channel) == 0;
	int r = channel_send(&peer->channel, type, call, payload, fds, n_fds);

	count(peer);
	if (peer->lost)
		return;
	/* Sent at the end of the turn, with whatever else is queued until then; a failure is
	 * seen there too. One that answers and does not read is one that lies. */
	if (r < 0 || channel_waiting(&peer->channel) > LIMIT_PEER_WAITING_BYTES)
		peer_kill(peer);
	else if (idle)
		loop_turn_defer(&peer->flush);
}

void peer_adopt(struct peer *peer, const struct peer_owner *owner)
{
	peer->owner = *owner;
}

int peer_pidfd(const struct peer *peer)
{
	return peer->pidfd;
}

void peer_kill(struct peer *peer)
{
	if (peer->pidfd >= 0)
		pidfd_send_signal(peer->pidfd, SIGKILL, NULL, 0);
}

void peer_wait(struct peer *peer, int milliseconds)
{
	struct pollfd poll_fd = {.events = POLLIN};

	if (!peer || peer->pidfd < 0)
		return;
	poll_fd.fd = peer->pidfd;
	(void)poll(&poll_fd, 1, milliseconds);
}

void peer_free(struct peer *peer)
{
	if (!peer)
		return;
	peer_kill(peer);
	loop_turn_cancel(&peer->flush);
	loop_share_cancel(&peer->share);
	if (peer->readable)
		event_free(peer->readable);
	if (peer->writable)
		event_free(peer->writable);
	if (peer->retry)
		event_free(peer->retry);
	if (peer->ended)
		event_free(peer->ended);
	waiting -= peer->counted;
	channel_drop_held(&peer->channel);
	count_held(peer, false);
	channel_done(&peer->channel);
	close_fd(&peer->pidfd);
	free(peer);
}
