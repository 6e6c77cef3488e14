/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's connection to one process of a workspace, the worker or the files process. cloisterd
 * sends requests by a socket that is shut down for reading, reads results from a socket that
 * refuses descriptors (fd_closer.h), and kills the process by a pidfd. No pipes: a process can hold
 * a pipe's lock, also with O_NONBLOCK, but a socket's receiver waits for no sender. The process is
 * hostile: if it breaks the protocol, closes its end or dies it is lost, and that affects no other
 * process.
 */

#include "common/wire/channel.h"

struct event_base;
struct loop_share_flow;
struct process_link;
struct shared_fd_sum;

/* A link must not be freed from inside these callbacks. */
struct process_link_owner {
	/*
	 * A frame came; its payload is borrowed. Returns -EBADMSG if the process broke the
	 * protocol, and then it is dropped.
	 */
	int (*frame)(void *context, const struct channel_frame *frame);
	/*
	 * It broke the protocol, closed its end or died: it is killed, and no more frames come.
	 * Called once.
	 */
	void (*lost)(void *context);
	/* Its process has ended, and everything in its pid namespace. Called once, after lost. */
	void (*gone)(void *context);
	/* Returns the flow whose share of the loop reading it takes. */
	struct loop_share_flow *(*share)(void *context);
	/* Returns the sum of its workspace, NULL: it has none. */
	struct shared_fd_sum *(*sum)(void *context);
	/* Returns the sum that the memory of requests that it has not read is added to. */
	uint64_t *(*unread)(void *context);
	void *context;
};

/**
 * Makes a link to a process that is not started yet. Stores the process's ends in @ret_child_fds,
 * which the caller passes on and closes: the socket to read requests from, then the one to write
 * results to. Returns 0 or -errno.
 */
int process_link_new(struct event_base *base, const struct process_link_owner *owner,
	struct process_link **ret, int ret_child_fds[2]);

/**
 * The process was started: takes its @pidfd, begins to read, and watches for its end. Returns 0 or
 * -errno.
 */
int process_link_started(struct process_link *link, int pidfd);

/**
 * Like channel_send(), and writes when the process can take it. An error is the loss of the
 * process, reported through its owner.
 */
void process_link_send(struct process_link *link, uint8_t type, uint64_t call, struct text payload,
	const int *fds, unsigned n_fds);

/** Returns a position behind everything sent so far, for process_link_has_heard(). */
uint64_t process_link_said(struct process_link *link);
/** Whether its process has read everything up to the position @said. unix(7), SIOCOUTQ. */
bool process_link_has_heard(struct process_link *link, uint64_t said);

/** Changes the owner that is called. */
void process_link_adopt(struct process_link *link, const struct process_link_owner *owner);

/** Borrowed; -1 before process_link_started(). */
int process_link_pidfd(const struct process_link *link);

/** Returns the memory of requests that all processes together have not read. */
uint64_t process_links_waiting(void);

/**
 * Sends SIGKILL to the process, which ends everything in its pid namespace. pidfd_send_signal(2).
 */
void process_link_kill(struct process_link *link);

/** Whether its process has ended, or was never started. */
bool process_link_is_gone(const struct process_link *link);

/** Waits until a killed process is gone, at most @milliseconds. NULL is allowed. */
void process_link_wait(struct process_link *link, int milliseconds);

/** Kills the process and frees the link. NULL is allowed. */
void process_link_free(struct process_link *link);
