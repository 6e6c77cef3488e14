/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of main, and the end of a start that cannot succeed. Only cloisterd.c, the steps of its
 * start (own_files.h, own_sockets.h, helpers.h) and the change of generations (old_daemon.h,
 * new_daemon.h) use it; all other files use struct service. The steps end the process by die():
 * nothing is served yet.
 */

#include "supervisor/call/call.h"
#include "supervisor/call/service.h"
#include "supervisor/config/options.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/workspace/network/egress_link.h"

#include <stdbool.h>

struct config_reload;
struct config_source;
struct old_daemon;
struct listener;
struct removal;
struct shutdown;
struct spawner_link;
struct new_daemon;

/* State that lives as long as the process. */
struct daemon {
	struct options options;
	struct config_source *config_source; /* NULL: user mode without a file */
	struct config_reload *config_reload;
	struct service service; /* the part of the state that other files see */
	struct call_observer observers[2];
	struct egress_observer network;
	struct cgroup cgroup;
	struct spawner_link *spawner;
	struct listener *listener, *control;
	struct listener *egress; /* path at which cloister-egress connects; NULL: there is none */
	struct shutdown *shutdown;
	struct removal *removal;
	struct old_daemon
		*old_daemon; /* its role for the next generation; NULL: there can be none */
	struct new_daemon *new_daemon; /* and to the one before; NULL: there was none */
	int state_lock;
	const char *own_paths[8]; /* paths that no workspace may contain, ended by NULL */
	int managed_fd;
	bool failed; /* exit with a failure, so that the service manager starts cloisterd again */
};

/** Logs that @what failed with @error, an errno of either sign, and ends the process. */
_Noreturn void die(const char *what, int error);

/** Logs @message and ends the process. */
_Noreturn void die_with(const char *message);

/** Whether the configuration chose system mode. */
bool daemon_is_system(const struct daemon *daemon);

/**
 * Returns the canonical form of @path, or a copy if there is none (realpath(3)); malloc'ed, NULL if
 * memory is out. Call it before lock-down.
 */
char *daemon_canonical_path(const char *path);

/** Adds the canonical form of @path to the paths that no workspace may contain. */
void daemon_own_path(struct daemon *daemon, const char *path);
