/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-spawner: lookers are children of it that look directories up, each one at a time, so
 * that a file system that does not answer holds nobody but the look-up that met it. One that has
 * not answered in LIMIT_LOOK_UP_MS is late: it is killed, its look-up is over, and it is left to
 * the kernel, which may hold it for as long as the file system does.
 *
 * A tenant has LIMIT_LOOK_UPS_AT_ONCE that are young. One that is silent for
 * LIMIT_LOOK_UP_SILENT_MS makes place for others of its tenant, but not for one below the same
 * mount point: that waits, and once the silent one is late it is over at once. So each mount that
 * hangs holds few lookers, and LIMIT_LOOKERS_PER_TENANT is a bound on how many mounts a tenant may
 * let hang.
 */

#include "common/limits.h"
#include "worker/spawner/place.h"

#include <poll.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

struct look;
struct looker;

struct lookers {
	TAILQ_HEAD(look_list, look) waiting;
	LIST_HEAD(, looker) list;
	size_t n_waiting, n_list;
};

enum look_kind {
	LOOK_UP,    /* place_look_up */
	LOOK_AGAIN, /* place_look_again */
};

struct look_request {
	enum look_kind kind;
	bool below;           /* LOOK_UP */
	int fd;               /* from where, or what; borrowed until it is done */
	const char *tenant;   /* for whom */
	const char *path;     /* LOOK_UP: from fd */
	const char *readonly; /* LOOK_AGAIN */
};

/** @error is -ETIMEDOUT, -EBUSY or the like where there is nothing to know; otherwise 0, and @place
 * says the rest. What is open in @place is closed afterwards, unless it is taken out of it. */
typedef void (*look_done)(void *context, int error, struct place *place);

void lookers_init(struct lookers *lookers);

/**
 * Looks @request up: @done is called exactly once, later, from lookers_serve. 0; -EBUSY: too many
 * of the tenant's, or of all, wait; or another -errno.
 */
int lookers_ask(
	struct lookers *lookers, const struct look_request *request, look_done done, void *context);

/** What to wait for beside anything else: how many of @ret (LIMIT_LOOKERS) are filled; and for how
 * long at most, in ms, in @ret_timeout; -1: for ever. */
size_t lookers_poll(const struct lookers *lookers, struct pollfd *ret, int *ret_timeout);

/** After the wait: takes answers, ends what is late, begins what waits. */
void lookers_serve(struct lookers *lookers);

/** @pid has been reaped. */
void lookers_reaped(struct lookers *lookers, pid_t pid);
