// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, and in its child, the closer, which ends and thereby closes what it has.
 * What is closed is hostile.
 */
#include "worker/spawner/closers.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "worker/confine.h"
#include "worker/spawner/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* A host without idle processors must get its memory back, too, so it is not the lowest. */
#define CLOSER_NICE 10

void closers_init(struct closers *closers)
{
	*closers = (struct closers){0};
	TAILQ_INIT(&closers->waiting);
	TAILQ_INIT(&closers->running);
}

/*
 * The end of the pipe @alone is read when the spawner has closed its own descriptors. The closer
 * does not call close(2), which waits for a lingering socket: what exit(2) closes lingers in the
 * background. socket(7)
 */
static _Noreturn void be_closer(const struct closing *closing, int alone, pid_t parent)
{
	struct forked forked = {.spawner = parent, .kept = {alone}, .n_kept = 1};
	char byte;
	int r;

	for (size_t i = 0; i < CLOSING_FDS; i++)
		forked.kept[forked.n_kept++] = closing->fds[i];
	(void)prctl(PR_SET_NAME, "cloister-closer");
	(void)forked_die_with_spawner(&forked);
	(void)confine_keep_capabilities(NULL, 0);
	r = forked_close_others(&forked);
	(void)setpriority(PRIO_PROCESS, 0, CLOSER_NICE);
	if (r == 0) /* otherwise it has the other end as well */
		(void)!read(alone, &byte, 1);
	_exit(0);
}

static int start(struct closing *closing)
{
	int pipe_fds[2], r;
	pid_t parent = getpid(), pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		be_closer(closing, pipe_fds[0], parent);
	r = pid < 0 ? -errno : 0;
	if (r == 0) {
		closing->closer = pid;
		for (size_t i = 0; i < CLOSING_FDS; i++)
			close_fd(&closing->fds[i]);
	}
	/* The closer waits for this. */
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return r;
}

static struct closing *find(const struct closing_list *list, const char *tenant)
{
	struct closing *closing;

	TAILQ_FOREACH (closing, list, entry)
		if (strcmp(closing->tenant, tenant) == 0)
			break;
	return closing;
}

/* Returns the first of the tenant that has waited for the longest time since its last turn. */
static struct closing *find_next(const struct closers *closers)
{
	struct closing *closing, *next = NULL;

	TAILQ_FOREACH (closing, &closers->waiting, entry)
		if ((!next || closing->turn < next->turn) &&
			!find(&closers->running, closing->tenant))
			next = closing;
	return next;
}

/*
 * A closer that does not end is its tenant's, whose others wait for it. Other tenants do not: it
 * does not count any more.
 */
static void count_out_late(struct closers *closers)
{
	const uint64_t now = monotonic_ms();
	struct closing *closing;

	TAILQ_FOREACH (closing, &closers->running, entry)
		if (!closing->is_late && now >= closing->late_ms) {
			closing->is_late = true;
			closers->n_running--;
		}
}

/* What cannot begin now, for want of memory for instance, begins when something ends. */
static void go_on(struct closers *closers)
{
	struct closing *next, *other;

	count_out_late(closers);
	while (closers->n_running < LIMIT_CLOSERS && (next = find_next(closers)) &&
		start(next) == 0) {
		TAILQ_REMOVE(&closers->waiting, next, entry);
		TAILQ_INSERT_TAIL(&closers->running, next, entry);
		closers->n_running++;
		next->late_ms = monotonic_ms() + LIMIT_CLOSER_MS;
		closers->turns++;
		TAILQ_FOREACH (other, &closers->waiting, entry)
			if (strcmp(other->tenant, next->tenant) == 0)
				other->turn = closers->turns;
	}
}

void closers_add(struct closers *closers, struct closing *closing)
{
	const struct closing *other = find(&closers->waiting, closing->tenant);

	closing->turn = other ? other->turn : closers->turns;
	closing->closer = 0;
	closing->is_late = false;
	TAILQ_INSERT_TAIL(&closers->waiting, closing, entry);
	go_on(closers);
}

static size_t count(const struct closing_list *list, const char *tenant)
{
	const struct closing *closing;
	size_t n = 0;

	TAILQ_FOREACH (closing, list, entry)
		n += strcmp(closing->tenant, tenant) == 0;
	return n;
}

size_t closers_count(const struct closers *closers, const char *tenant)
{
	return count(&closers->waiting, tenant) + count(&closers->running, tenant);
}

void closers_reaped(struct closers *closers, pid_t pid)
{
	struct closing *closing;

	TAILQ_FOREACH (closing, &closers->running, entry)
		if (closing->closer == pid)
			break;
	if (closing) {
		TAILQ_REMOVE(&closers->running, closing, entry);
		closers->n_running -= !closing->is_late;
		free(closing);
	}
	go_on(closers);
}

int closers_bound(const struct closers *closers)
{
	const struct closing *closing;
	int left, bound = -1;

	if (closers->n_running < LIMIT_CLOSERS || TAILQ_EMPTY(&closers->waiting))
		return -1;
	TAILQ_FOREACH (closing, &closers->running, entry) {
		if (closing->is_late)
			continue;
		left = monotonic_left_ms(closing->late_ms);
		if (bound < 0 || left < bound)
			bound = left;
	}
	return bound;
}

void closers_look(struct closers *closers)
{
	if (closers_bound(closers) == 0)
		go_on(closers);
}
