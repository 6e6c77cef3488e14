// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The processes of a spare cell have not touched a workspace and send nothing;
 * one that does is killed.
 */
#include "supervisor/cell/spare_cells.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/timer.h"
#include "supervisor/cell/process_link.h"
#include "supervisor/cell/spawner_ask.h"
#include "supervisor/schedule/loop_share.h"

#include <assert.h>
#include <errno.h>
#include <sys/queue.h>

#define PAUSE_MS 5 /* a pause, so that openings by clients go first */
/*
 * While another one is ready, the pause lasts for the first command of the workspace that took one:
 * making a cell needs as much of the processors.
 */
#define PAUSE_READY_MS 50

struct spare {
	LIST_ENTRY(spare) entry;
	struct spare_cells *all;
	struct process_link *links[SPAWNER_OPENED_FDS];
	uint64_t group;      /* number that names its cgroup */
	uint32_t proxy_port; /* of the request that it was made from */
	bool lost;
};

struct spare_cells {
	struct event_base *base;
	struct spawner_link *spawner;
	struct spawner_open request;
	size_t limit, ready;
	struct spare *coming; /* requested from the spawner and not answered */
	uint64_t asked;
	struct timer refill, idle, clean;
	struct spare_cells_view counts;
	LIST_HEAD(, spare) list;
};

/* Must not be called from a process link's callback. */
static void spare_free(struct spare *spare)
{
	process_link_free(spare->links[SPAWNER_OPENED_WORKER]);
	process_link_free(spare->links[SPAWNER_OPENED_FILES]);
	free(spare);
}

static int on_spare_frame(void *context, const struct channel_frame *frame)
{
	(void)context;
	(void)frame;
	return -EBADMSG;
}

static void on_spare_lost(void *context)
{
	struct spare *spare = context;

	spare->lost = true;
	timer_set(&spare->all->clean, 0);
}

static void on_gone(void *context)
{
	(void)context;
}

static struct loop_share_flow *spare_share(void *context)
{
	(void)context;
	return loop_share_of_nobody();
}

static void drop_spare(struct spare_cells *spares, struct spare *spare)
{
	LIST_REMOVE(spare, entry);
	assert(spares->ready > 0);
	spares->ready--;
	spare_free(spare);
}

static void on_clean(void *context)
{
	struct spare_cells *spares = context;
	struct spare *spare, *next;

	for (spare = LIST_FIRST(&spares->list); spare; spare = next) {
		next = LIST_NEXT(spare, entry);
		if (!spare->lost)
			continue;
		spares->counts.lost++;
		drop_spare(spares, spare);
	}
}

static void on_prepared(void *context, int error, struct text step, int fds[SPAWNER_OPENED_MOST])
{
	struct spare_cells *spares = context;
	struct spare *spare = TAKE_PTR(spares->coming);
	bool ok = error >= 0;

	(void)step;
	spare->group = spares->asked;
	spares->asked = 0;
	/* Each takes its pidfd, whatever becomes of the other. */
	for (int i = 0; error >= 0 && i < SPAWNER_OPENED_FDS; i++)
		ok = process_link_started(spare->links[i], fds[i]) == 0 && ok;
	if (!ok || spares->ready >= spares->limit) {
		/* The next opening tries again. */
		spare_free(spare);
		return;
	}
	LIST_INSERT_HEAD(&spares->list, spare, entry);
	spares->ready++;
	spares->counts.made++;
	timer_set(&spares->refill, PAUSE_MS);
}

/* It gets no descriptors. */
static struct shared_fd_sum *spare_sum(void *context)
{
	(void)context;
	return NULL;
}

/* It has no requests but the first, which all have. */
static uint64_t *spare_unread(void *context)
{
	static uint64_t of_spares;

	(void)context;
	return &of_spares;
}

static int ask_for_spare(struct spare_cells *spares, struct spare *spare)
{
	const struct process_link_owner owner = {on_spare_frame, on_spare_lost, on_gone,
		spare_share, spare_sum, spare_unread, spare};
	int fds[SPAWNER_PREPARE_FDS] = {-1, -1, -1, -1};
	int r = process_link_new(spares->base, &owner, &spare->links[SPAWNER_OPENED_WORKER],
		&fds[SPAWNER_PREPARE_WORKER_DOWN]);

	if (r == 0)
		r = process_link_new(spares->base, &owner, &spare->links[SPAWNER_OPENED_FILES],
			&fds[SPAWNER_PREPARE_FILES_DOWN]);
	if (r == 0)
		return spawner_link_open(spares->spawner, SPAWNER_PREPARE, &spares->request, fds,
			on_prepared, spares, &spares->asked);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close_fd(&fds[i]);
	return r;
}

static void on_refill(void *context)
{
	struct spare_cells *spares = context;
	struct spare *spare;

	if (spares->coming || spares->ready >= spares->limit)
		return;
	spare = calloc(1, sizeof(*spare));
	if (!spare)
		return;
	spare->all = spares;
	spare->proxy_port = spares->request.proxy_port;
	if (ask_for_spare(spares, spare) < 0)
		spare_free(spare);
	else
		spares->coming = spare;
}

static void drop_down_to(struct spare_cells *spares, size_t n)
{
	while (spares->ready > n)
		drop_spare(spares, LIST_FIRST(&spares->list));
}

static void on_spare_idle(void *context)
{
	drop_down_to(context, 0);
}

struct spare_cells *spare_cells_new(struct event_base *base, struct spawner_link *spawner)
{
	struct spare_cells *spares = calloc(1, sizeof(*spares));

	if (!spares)
		return NULL;
	spares->base = base;
	spares->spawner = spawner;
	LIST_INIT(&spares->list);
	timer_init(&spares->refill, on_refill, spares);
	timer_init(&spares->idle, on_spare_idle, spares);
	timer_init(&spares->clean, on_clean, spares);
	return spares;
}

void spare_cells_free(struct spare_cells *spares)
{
	if (!spares)
		return;
	if (spares->asked)
		spawner_link_forget(spares->spawner, spares->asked);
	if (spares->coming)
		spare_free(spares->coming);
	drop_down_to(spares, 0);
	timer_cancel(&spares->refill);
	timer_cancel(&spares->idle);
	timer_cancel(&spares->clean);
	free(spares);
}

void spare_cells_limit(struct spare_cells *spares, size_t limit)
{
	spares->limit = limit;
	drop_down_to(spares, limit);
}

void spare_cells_begin(struct spare_cells *spares, const struct spawner_open *request)
{
	spares->request = *request;
	spares->request.layers = (struct layer_stack){0};
	spares->request.kept = 0;
	if (spares->limit == 0)
		return;
	timer_set(&spares->refill, PAUSE_MS);
	timer_set(&spares->idle, LIMIT_SPARE_CELLS_MS);
}

bool spare_cells_are_made(const struct spare_cells *spares)
{
	return spares->ready >= spares->limit ||
	       (!spares->coming && !timer_is_set(&spares->refill));
}

bool spare_cells_take(struct spare_cells *spares, const struct spawner_open *request,
	uint64_t *ret_group, struct process_link *ret_links[SPAWNER_OPENED_FDS])
{
	struct spare *spare;

	spare_cells_begin(spares, request);
	LIST_FOREACH (spare, &spares->list, entry)
		if (!spare->lost && spare->proxy_port == request->proxy_port)
			break;
	if (!spare) {
		/* One that does not fit gives its place to one that will. */
		if (!LIST_EMPTY(&spares->list) && spares->ready >= spares->limit)
			drop_spare(spares, LIST_FIRST(&spares->list));
		return false;
	}
	memcpy(ret_links, spare->links, sizeof(spare->links));
	memset(spare->links, 0, sizeof(spare->links));
	*ret_group = spare->group;
	drop_spare(spares, spare);
	if (spares->ready > 0)
		timer_set(&spares->refill, PAUSE_READY_MS);
	spares->counts.used++;
	return true;
}

void spare_cells_died(struct spare_cells *spares)
{
	spares->counts.lost++;
}

void spare_cells_look(const struct spare_cells *spares, struct spare_cells_view *ret)
{
	*ret = spares->counts;
	ret->ready = spares->ready;
	ret->limit = spares->limit;
}
