/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloisterd's connection to cloister-egress, and the cells whose commands have a network; messages
 * as in egress/PROTOCOL. cloister-egress reads bytes of workspaces and of the Internet: its
 * messages are decoded strictly, cloisterd takes no descriptor from it, and every wait for it has a
 * bound. Without it commands have no network, and all else goes on.
 */

#include "supervisor/workspace/network/network_use.h"

#include <stdbool.h>
#include <sys/types.h>

struct egress_link;
struct event_base;

struct egress_start {
	const char *config; /* path of the configuration; NULL: there is none */
	const char *allow;  /* without one: the rules of the user, separated by blanks */
	/*
	 * A listening socket, borrowed, at which cloister-egress connects that the service manager
	 * has started. -1: cloisterd starts it.
	 */
	int listener;
	uid_t uid; /* with a listener: its user */
};

/*
 * Called for reports about every cell, at once, with or without its call (0: unknown).
 * EGRESS_PROXY_LOST, which each running call gets, has no host.
 */
struct egress_observer {
	void (*denied)(
		void *context, const struct egress_cell *cell, const struct egress_denied *denied);
	void (*closed)(
		void *context, const struct egress_cell *cell, const struct egress_closed *closed);
	void *context;
};

/**
 * Starts cloister-egress, or gets ready for its connection. Call it before lock-down. Returns 0 or
 * -errno.
 */
int egress_link_start(const struct egress_start *start, struct egress_link **ret);

/** Serves the link from @base. @observer is borrowed. Returns 0 or -errno. */
int egress_link_watch(
	struct egress_link *link, struct event_base *base, const struct egress_observer *observer);

/** The configuration has changed. NULL is allowed. */
void egress_link_reload(struct egress_link *link);

/**
 * While it is paused, a cloister-egress that connects waits: the listener is perhaps given to
 * another generation of cloisterd. NULL is allowed.
 */
void egress_link_pause(struct egress_link *link, bool pause);

/**
 * The listener is another generation's. The connected cloister-egress serves on, and lets the
 * service manager's process start another one for that generation (egress/egress_parent.h). NULL is
 * allowed.
 */
void egress_link_retire(struct egress_link *link);

/** Whether cloister-egress is connected and serves. NULL: it is not. */
bool egress_link_is_ready(const struct egress_link *link);

/**
 * Returns the networks of egress_private that the host's IP filter refuses to it, separated by
 * blanks, valid until the next turn of the loop; "": nothing that it knows of. NULL if it is not
 * there.
 */
const char *egress_link_filtered(const struct egress_link *link);

/** Ends it. All cells have been freed before. NULL is allowed. */
void egress_link_free(struct egress_link *link);
