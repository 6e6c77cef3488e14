/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The home cleaner: a child of the spawner that measures a kept home, or clears a home or a layer.
 * Both may take long. Tenants take turns. A home cleaner that clears ends after LIMIT_SWEEP_CPU_S
 * of CPU time or LIMIT_SWEEP_TURN_S, and another one goes on later.
 */

#include "common/limits.h"
#include "worker/spawner/job/job.h"

/* The first member of the swept object. */
struct sweep {
	struct job job;  /* first */
	unsigned killed; /* killed home cleaners of it */
};

struct sweep_queue {
	struct job_queue jobs;
	bool late; /* a turn was over in less time of the processor than it may have */
};

/* The bounds of a kind of such jobs. */
#define SWEEP_BOUNDS .at_once = 1, .of_tenant = 1, .late_ms = LIMIT_SWEEP_LATE_MS

/** @sweep, of @tenant, waits for its turn. Returns 0 or -ENOMEM. */
int sweep_add(struct sweep_queue *queue, struct sweep *sweep, const char *tenant);

/**
 * Whether to start another home cleaner after one ended with @status: it had more to do, or it was
 * killed, which is allowed a few times.
 */
bool sweep_goes_on(struct sweep_queue *queue, struct sweep *sweep, int status);

/**
 * Whether the next home cleaner runs at normal priority: an earlier turn was over before it had
 * used its CPU time, or many wait.
 */
bool sweep_hurries(const struct sweep_queue *queue);

/**
 * Starts a home cleaner that measures the tree at @fd: its result is 0, or -EFBIG if the tree takes
 * more than @max_bytes of disk, has more than LIMIT_HOME_FILES files, is deeper than
 * LIMIT_CLEAR_DEPTH or cannot be read. No link is followed. Returns the home cleaner's pid or
 * -errno.
 */
pid_t sweep_measure(const struct sweep_queue *queue, int fd, uint64_t max_bytes);

/** Starts a home cleaner that clears the directory @fd as its owner. Returns its pid or -errno. */
pid_t sweep_clear(const struct sweep_queue *queue, int fd);
