/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/wire/channel.h"

#include <sys/types.h>

/* The state of the spawner's set-up. */
struct spawner_setup {
	struct channel *channel; /* to cloisterd */
	uid_t uid;               /* the caller's own id; in user mode it is mapped to itself */
	gid_t gid;
	/* 0, or the -errno with which leaving the caller's session keyring failed */
	int keyring_error;
	bool system; /* system mode: cloisterd, or newuidmap for it, writes the maps */
};

/** Runs the spawner's ordered set-up. 0, or -errno with the failed step's name in @ret_step. */
int spawner_setup(struct spawner_setup *setup, const char **ret_step);
