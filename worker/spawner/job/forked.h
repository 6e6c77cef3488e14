/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The start and end of the spawner's children that execute no program: path resolver, home cleaner,
 * tmpfs closer, taker, overlay mounter, holder, copier, measurer and layer merger. Each begins as a
 * copy of the spawner, with its capabilities and descriptors, and its kind has a list of steps that
 * give them up. A child's context is a struct that begins with a struct forked, which is the
 * context of the steps here.
 */

#include "worker/setup.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct forked {
	pid_t spawner;
	int kept[4]; /* the descriptors that it keeps; -1: none */
	size_t n_kept;
	uid_t uid; /* that it becomes */
	gid_t gid;
	bool reads_all; /* with CAP_DAC_READ_SEARCH, the only capability that it keeps */
};

struct forked_kind {
	const char *name; /* prctl(2) PR_SET_NAME */
	const struct setup_step *steps;
	size_t n_steps;
	/* Its work after the steps. Returns 0 or -errno, which forked_result() gives. */
	int (*work)(void *child);
};

/** Starts a child of @kind with the context @child. Returns its pid, to be reaped, or -errno. */
pid_t forked_start(const struct forked_kind *kind, struct forked *child);

/**
 * The kernel kills this process when the spawner dies. A change of user clears that, so the step
 * comes again after it. Fails with -EPIPE if the spawner has died before. PR_SET_PDEATHSIG(2const)
 */
int forked_die_with_spawner(void *forked);

/**
 * Closes every descriptor but those in @kept: a mount, a pipe or a lock of another cell must not
 * live as long as this process. close_range(2)
 */
int forked_close_others(void *forked);

/** Enters a new mount namespace. Ignores its argument. */
int forked_leave_mounts(void *forked);

/** Keeps no capability. Ignores its argument. */
int forked_keep_nothing(void *forked);

/** Runs only when a processor has nothing else to do. Ignores its argument. sched(7) */
int forked_take_idle_time(void *forked);

/** Becomes the id that the tree belongs to on which it works, without groups. */
int forked_become_owner(void *forked);

/** Ends this process and tells the spawner @r, which is 0 or -errno. */
_Noreturn void forked_exit(int r);

/** Decodes the exit @status: 0, the -errno of forked_exit(), or -EIO if it was killed. */
int forked_result(int status);
