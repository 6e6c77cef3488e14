/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sweeper: a child of the spawner that measures a kept home or clears one. Both may take long.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The exit status of a sweeper. */
enum home_swept {
	HOME_SWEPT,     /* measured, and it fits; or cleared */
	HOME_TOO_LARGE, /* it does not fit, or it cannot be measured */
	HOME_NOT_CLEARED,
};

struct home_sweep {
	int fd;             /* the home, open for reading; closed in the child */
	bool clear;         /* otherwise measure it */
	bool in_turns;      /* after LIMIT_SWEEP_* it ends: home_sweep_goes_on() */
	bool prompt;        /* not only while nothing else wants the processor */
	uint64_t max_bytes; /* against this size */
};

/** Starts a sweeper. Returns its pid, to be reaped by the caller, or -errno. */
pid_t home_sweep_start(const struct home_sweep *sweep);

/** Whether its turn was over, so that another one is to go on; @status as it was reaped with. */
bool home_sweep_goes_on(int status);

/** Whether that was so although it had less time of the processor than a turn has. */
bool home_sweep_is_late(int status);

/**
 * Whether the tree at @fd takes at most @max_bytes of disk and has at most LIMIT_HOME_FILES files.
 * No link is followed. A tree deeper than LIMIT_CLEAR_DEPTH, or one with a directory that cannot be
 * read, counts as too large.
 */
enum home_swept home_measure(int fd, uint64_t max_bytes);
