/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's end of one process of a workspace, its worker or its files process: requests go down
 * a socket that is shut for reading, results come up a pipe, and a pidfd kills. A pipe cannot carry
 * descriptors, so a hostile peer can hand none over. The peer is hostile: what breaks the protocol,
 * hangs up or dies is lost, and losing it harms nobody else.
 */

#include "common/channel.h"

struct event_base;
struct loop_share_flow;
struct peer;

/* A peer must not be freed from inside these. */
struct peer_owner {
	/* A frame came; its payload is borrowed. -EBADMSG: the peer broke the protocol and is
	 * dropped. */
	int (*frame)(void *context, const struct channel_frame *frame);
	/* It broke the protocol, hung up or died: it is killed and nothing more comes from it. Said
	 * once. */
	void (*lost)(void *context);
	/* Its process has ended, and with it everything in its pid namespace. Said once, after
	 * lost. */
	void (*gone)(void *context);
	/* Whose turns of the loop hearing it takes. */
	struct loop_share_flow *(*share)(void *context);
	void *context;
};

/**
 * A peer that is not started yet. Stores in @ret_child_fds what its process gets, which the caller
 * passes on and closes: the socket to read requests from, then the pipe to write results to. 0 or
 * -errno.
 */
int peer_new(struct event_base *base, const struct peer_owner *owner, struct peer **ret,
	int ret_child_fds[2]);

/** The process is started: takes its @pidfd, begins to read and notices its end. 0 or -errno. */
int peer_started(struct peer *peer, int pidfd);

/** As channel_send, and writes when the peer can take it. Errors are the peer's loss, reported
 * through its owner. */
void peer_send(struct peer *peer, uint8_t type, uint64_t call, struct text payload, const int *fds,
	unsigned n_fds);

/** How far it has got with what was sent: a point that peer_has_heard compares with. */
uint64_t peer_said(struct peer *peer);
/** Whether its process has read all that had been sent when peer_said() said @said. unix(7),
 * SIOCOUTQ. */
bool peer_has_heard(struct peer *peer, uint64_t said);

/** From now on another is told. */
void peer_adopt(struct peer *peer, const struct peer_owner *owner);

/** Borrowed; -1 before peer_started. */
int peer_pidfd(const struct peer *peer);

/** Memory of what waits for all peers together, because they do not read. */
uint64_t peers_waiting(void);

/** SIGKILL to the process, which ends everything in its pid namespace. pidfd_send_signal(2). */
void peer_kill(struct peer *peer);

/** Whether its process has ended, or was never started. */
bool peer_is_gone(const struct peer *peer);

/** Waits until a killed process is gone, at most @milliseconds. NULL is fine. */
void peer_wait(struct peer *peer, int milliseconds);

/** Kills the process and forgets it. NULL is fine. */
void peer_free(struct peer *peer);
