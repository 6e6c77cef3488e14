/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The start of cloister-spawner. */

#include <stdbool.h>

struct channel;
struct helper_process;
struct id_range;

/* The descriptors and texts with which the spawner starts. All are borrowed. */
struct spawner_start {
	int cgroup_fd;                /* the delegated cgroup, or -1 */
	int managed_fd;               /* directory of the managed workspaces, or -1 */
	const char *config;           /* path of the configuration; NULL: there is none */
	const char *readonly;         /* without one: the user's read-only paths, one a line */
	bool network;                 /* without one: the user has allowed hosts */
	bool beside;                  /* another generation uses the state: spawner_link_beside() */
	const struct id_range *range; /* system mode; NULL: user mode */
};

/**
 * Starts cloister-spawner, and waits until it is in its namespaces and, in system mode, has been
 * given its ids. For spawner_link.c. Returns 0 or -errno; @ret_message is then NULL or a sentence
 * that says more, to be freed. @ret_process and @ret_channel, which are initialized, are the
 * caller's in each case.
 */
int spawner_begin(const struct spawner_start *start, struct helper_process *ret_process,
	struct channel *ret_channel, char **ret_message);
