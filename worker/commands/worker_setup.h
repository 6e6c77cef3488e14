/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/limits.h"
#include "common/wire/wire_spawner.h"
#include "worker/commands/command_ruleset.h"

/* The state of the worker while it builds its root, and later. */
struct worker_setup {
	enum workspace_kind kind;
	bool is_fork; /* a whole root that was made of a template */
	/* where commands see the workspace: "/workspace", its own path, or "/" */
	const char *visible;
	const char *home;     /* HOME, outside the workspace */
	bool keeps_home;      /* FD_WORKER_HOME is a mount */
	bool has_network;     /* commands reach hosts over cloister-egress */
	bool allows_filters;  /* the tenant's command_filters = allow */
	const char *readonly; /* the tenant's readonly_paths on the host, one a line */
	uint64_t tmp_bytes, file_size_bytes, data_bytes;
	uint32_t open_files;
	uint64_t cookie; /* filter cookie: worker/filters/filter_cookie.h */
	int listener;    /* worker/commands/unotify.h */
	struct command_ruleset ruleset;
	char failed[LIMIT_NAME_BYTES +
		    1];  /* the failed step, when more can be said than its name */
	int root;        /* mount of the new root while it is built, then -1 */
	int private;     /* mount of the private tmpfs until the spawner has another */
	int inside;      /* user namespace that commands enter; -1: none (root_inside) */
	int queues;      /* mount of the message queues, until the Landlock rules take it */
	int queue_names; /* root of that mount, open for reading; -1: the kernel has none */
	bool begun;      /* worker_setup_ahead was called */
	bool ahead;      /* and it has built the root */
};

#define WORKER_SETUP_NONE                  \
	((struct worker_setup){.root = -1, \
		.private = -1,             \
		.inside = -1,              \
		.queues = -1,              \
		.queue_names = -1,         \
		.listener = -1})

/**
 * Does the part of set-up that needs no workspace. With @has_ids the namespace's ids are mapped and
 * the process runs as its user; the part of the root that nearly all workspaces share is then built
 * too. Returns like worker_setup().
 */
int worker_setup_ahead(struct worker_setup *setup, bool has_ids, const char **ret_step);

/**
 * The last part: removes the host's root and installs the commands' system call filter, which
 * applies to the worker too. Both take the kernel a quarter of a millisecond, so this runs after
 * the worker has reported itself ready and before it reads its first request. It does not fail for
 * a feature that the host lacks. It also makes cgroups in the workspace read-only, which the
 * workspace's commands can make fail. Returns 0, or -errno with the failed step's name in
 * @ret_step.
 */
int worker_setup_late(struct worker_setup *setup, const char **ret_step);

/**
 * Runs the worker's ordered set-up, or the rest of it after worker_setup_ahead(). Returns 0, or
 * -errno with the failed step's name in @ret_step.
 */
int worker_setup(struct worker_setup *setup, const char **ret_step);
