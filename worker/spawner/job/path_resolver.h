/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Path resolvers are children of the spawner that look up directories, one at a time each, so that
 * a file system that does not answer delays only the look-ups that touch it. A path resolver that
 * has not answered within LIMIT_LOOK_UP_MS is late: its look-up fails, and it is killed, though the
 * kernel may keep it for as long as the file system hangs.
 *
 * A tenant may have LIMIT_LOOK_UPS_AT_ONCE look-ups running. One that has not answered for
 * LIMIT_LOOK_UP_SILENT_MS no longer counts, so that others of its tenant can begin; but one below
 * the same mount point waits, and fails when the silent one becomes late. Each hanging mount
 * therefore blocks few path resolvers, and LIMIT_PATH_RESOLVERS_PER_TENANT bounds how many hanging
 * mounts a tenant can hold path resolvers with. Tenants take turns with the places for path
 * resolvers, some of which are for tenants that have none, and a late path resolver takes a place
 * from its own tenant only.
 */

#include "common/fair_queue.h"
#include "common/limits.h"
#include "worker/spawner/cell/place.h"

#include <poll.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#define RESOLVERS_END_MS 200

struct look;
struct path_resolver;

struct path_resolvers {
	struct fair_queue turns;             /* of all look-ups */
	TAILQ_HEAD(look_list, look) waiting; /* waiting look-ups in their order */
	LIST_HEAD(, path_resolver) list;
};

enum look_kind {
	LOOK_UP,    /* place_look_up */
	LOOK_AGAIN, /* place_look_again */
};

struct look_request {
	enum look_kind kind;
	bool below; /* for LOOK_UP: stay below fd */
	bool file;  /* a regular file will do */
	/* the directory to start from, or to open again; borrowed until done is called */
	int fd;
	const char *tenant;   /* the tenant that asks */
	const char *path;     /* for LOOK_UP: relative to fd */
	const char *readonly; /* for LOOK_AGAIN: the read-only paths */
	/*
	 * Called at most once, before the look_done, when the look-up waits for a file system that
	 * does not answer; NULL: nobody wants to know.
	 */
	void (*waits)(void *context);
};

/**
 * @error is -ETIMEDOUT, -EBUSY or another failure of the look-up; otherwise 0, and @place has the
 * result. The descriptors in @place are closed afterwards unless the function takes them.
 */
typedef void (*look_done)(void *context, int error, struct place *place);

void path_resolvers_init(struct path_resolvers *resolvers);

/**
 * Begins or queues the look-up @request. path_resolvers_serve() later calls @done exactly once.
 * Returns 0, -EBUSY if too many look-ups of the tenant or of all tenants wait, or another -errno.
 */
int path_resolvers_ask(struct path_resolvers *resolvers, const struct look_request *request,
	look_done done, void *context);

/**
 * Fills @ret (room for LIMIT_PATH_RESOLVERS) with the descriptors to poll and returns their number.
 * @ret_timeout is the longest time to wait in ms, -1 for no limit.
 */
size_t path_resolvers_poll(
	const struct path_resolvers *resolvers, struct pollfd *ret, int *ret_timeout);

/** Call it after poll(2): takes answers, ends late look-ups and begins waiting ones. */
void path_resolvers_serve(struct path_resolvers *resolvers);

/** @pid has been reaped. */
void path_resolvers_reaped(struct path_resolvers *resolvers, pid_t pid);

/**
 * Call it before the spawner ends: kills all path resolvers and reaps them, so that init does not
 * have to. Path resolvers that a file system holds are left behind after RESOLVERS_END_MS, for all
 * of them together.
 */
void path_resolvers_end(struct path_resolvers *resolvers);
