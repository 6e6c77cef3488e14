/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's end of one process of a workspace, its worker or its files process: requests go down
 * a socket that is shut for reading, results come up a pipe, and a pidfd kills. A pipe cannot carry
 * descriptors, so a hostile process can hand none over. The process is hostile: what breaks the
 * protocol, hangs up or dies is lost, and losing it harms nobody else.
 */

#include "common/channel.h"

struct event_base;
struct loop_share_flow;
struct process_link;

/* A link must not be freed from inside these. */
struct process_link_owner {
	/* A frame came; its payload is borrowed. -EBADMSG: the process broke the protocol and is
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
 * A link to a process that is not started yet. Stores in @ret_child_fds what its process gets,
 * which the caller passes on and closes: the socket to read requests from, then the pipe to write
 * results to. 0 or -errno.
 */
int process_link_new(struct event_base *base, const struct process_link_owner *owner,
	struct process_link **ret, int ret_child_fds[2]);

/** The process is started: takes its @pidfd, begins to read and notices its end. 0 or -errno. */
int process_link_started(struct process_link *link, int pidfd);

/** As channel_send, and writes when the process can take it. An error is the loss of the process,
 * reported through its owner. */
void process_link_send(struct process_link *link, uint8_t type, uint64_t call, struct text payload,
	const int *fds, unsigned n_fds);

/** How far it has got with what was sent: a point that process_link_has_heard compares with. */
uint64_t process_link_said(struct process_link *link);
/** Whether its process has read all that had been sent when process_link_said() said @said.
 * unix(7), SIOCOUTQ. */
bool process_link_has_heard(struct process_link *link, uint64_t said);

/** From now on another is told. */
void process_link_adopt(struct process_link *link, const struct process_link_owner *owner);

/** Borrowed; -1 before process_link_started. */
int process_link_pidfd(const struct process_link *link);

/** Memory of what waits for all processes together, because they do not read. */
uint64_t process_links_waiting(void);

/** SIGKILL to the process, which ends everything in its pid namespace. pidfd_send_signal(2). */
void process_link_kill(struct process_link *link);

/** Whether its process has ended, or was never started. */
bool process_link_is_gone(const struct process_link *link);

/** Waits until a killed process is gone, at most @milliseconds. NULL is fine. */
void process_link_wait(struct process_link *link, int milliseconds);

/** Kills the process and forgets it. NULL is fine. */
void process_link_free(struct process_link *link);
