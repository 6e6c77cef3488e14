/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/channel.h"

#include <sys/types.h>

/* cloister-spawner, before and after it puts itself into its namespaces. */
struct spawner_setup {
	struct channel *channel; /* to cloisterd */
	uid_t uid;               /* the caller's own; in user mode mapped to itself */
	gid_t gid;
	int keyring_error; /* -errno: the caller's session keyring could not be left */
	bool system;       /* mode: cloisterd, or newuidmap for it, writes the maps */
};

/** Runs the spawner's ordered set-up. 0, or -errno with the failed step's name in @ret_step. */
int spawner_setup(struct spawner_setup *setup, const char **ret_step);
