// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, which looks at nothing in a template: a copier does, and its holder has the
 * tmpfs. Names are looked up in cloister's own state directory only.
 */
#include "worker/spawner/job/template_memory.h"

#include "common/budget.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/wire/wire_spawner.h"
#include "worker/mounts.h"
#include "worker/spawner/cell/cell_id.h"
#include "worker/spawner/cell/place.h"
#include "worker/spawner/job/template_holder.h"
#include "worker/spawner/job/tree_copier.h"
#include "worker/spawner/job/tree_copy.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

/* A request that waits for a load. */
struct memory_wait {
	STAILQ_ENTRY(memory_wait) entry;
	uint64_t number;
};

struct memory_template {
	struct job job; /* first: its load */
	TAILQ_ENTRY(memory_template) entry;
	char tenant[NAME_MAX + 1], name[LIMIT_TEMPLATE_TREE_BYTES + 1];
	struct stat on_disk;
	enum { WAITS, LOADS, READY } state;
	bool stale; /* what is on disk is another one, or the holder has ended: no cell gets it */
	struct giver holder;
	uint64_t bytes; /* that it takes, or has reserved */
	uint64_t least; /* it wants so much room, */
	uint64_t tried; /* and with this much it failed */
	unsigned tries; /* loads of it that were begun */
	size_t cells;
	uint64_t asked_ms, used_ms, began_ms;
	STAILQ_HEAD(, memory_wait) waits;
};

/* What those of @tenant take, or with NULL all. */
static uint64_t memory_taken(const struct template_memory *memory, const char *tenant)
{
	const struct memory_template *template;
	uint64_t bytes = 0;

	TAILQ_FOREACH (template, &memory->list, entry)
		if (!tenant || strcmp(template->tenant, tenant) == 0)
			bytes += template->bytes;
	return bytes;
}

/* The memory that tenants share. A cell above a template holds its part for as long as it runs. */
static struct budget budget_of(const struct template_memory *memory, const char *tenant)
{
	const struct policy_templates allowed = policy_templates(memory->policy, tenant);
	struct budget budget = {.held = memory_taken(memory, NULL)};

	budget_set(&budget, allowed.host_bytes, allowed.tenants, allowed.bytes);
	return budget;
}

static uint64_t left_of(uint64_t limit, uint64_t used)
{
	return used < limit ? limit - used : 0;
}

static uint64_t smaller_bytes(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What the configuration allows a tenant that has nothing in memory, if nobody has. */
static uint64_t most(const struct template_memory *memory, const char *tenant)
{
	struct budget budget = budget_of(memory, tenant);

	budget.held = 0;
	return smaller_bytes(
		budget_left(&budget, 0), policy_templates(memory->policy, tenant).bytes);
}

/* Whether the tenant's own bound leaves less than @bytes. */
static bool is_own_bound(const struct template_memory *memory, const char *tenant, uint64_t bytes)
{
	return left_of(policy_templates(memory->policy, tenant).bytes,
		       memory_taken(memory, tenant)) < bytes;
}

static uint64_t room(const struct template_memory *memory, const char *tenant)
{
	const struct budget budget = budget_of(memory, tenant);
	const uint64_t own = memory_taken(memory, tenant);

	return smaller_bytes(budget_left(&budget, own),
		left_of(policy_templates(memory->policy, tenant).bytes, own));
}

/* Whether more is in memory than a configuration that was read again allows. */
static bool is_too_much(const struct template_memory *memory, const char *tenant)
{
	struct policy_templates allowed = policy_templates(memory->policy, tenant);

	return memory_taken(memory, NULL) > allowed.host_bytes ||
	       memory_taken(memory, tenant) > allowed.bytes;
}

static bool is_same_template(const struct stat *a, const struct stat *b)
{
	/* The root of a template never changes, so that another time means another template. */
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static struct memory_template *find_memory_template(
	const struct template_memory *memory, const char *tenant, const char *name)
{
	struct memory_template *template;

	TAILQ_FOREACH (template, &memory->list, entry)
		if (!template->stale && strcmp(template->tenant, tenant) == 0 &&
			strcmp(template->name, name) == 0)
			return template;
	return NULL;
}

static void answer_waits(struct template_memory *memory, struct memory_template *template,
	int error, const char *step)
{
	struct memory_wait *wait;

	while ((wait = STAILQ_FIRST(&template->waits))) {
		STAILQ_REMOVE_HEAD(&template->waits, entry);
		memory->n_waits--;
		memory->answer(memory->context, wait->number, error, step);
		free(wait);
	}
}

static void end_holder(struct memory_template *template)
{
	if (template->holder.pid > 0)
		kill(template->holder.pid, SIGKILL);
	giver_end(&template->holder);
}

/* Takes it off the list. Its tmpfs goes with the last mount, and none is left. */
static void drop_memory_template(struct template_memory *memory, struct memory_template *template)
{
	job_cancel(&template->job);
	memory->n_loads -= template->state == LOADS;
	end_holder(template);
	TAILQ_REMOVE(&memory->list, template, entry);
	if (template->state == READY)
		memory->tell(memory->context, template->tenant, "", 0, 0,
			memory_taken(memory, template->tenant));
	free(template);
}

/* No cell gets it any more; what cells lie above stays with them. */
static void give_up_memory_template(
	struct template_memory *memory, struct memory_template *template)
{
	template->stale = true;
	answer_waits(memory, template, -EAGAIN, "find the template as it was");
	if (template->cells == 0)
		drop_memory_template(memory, template);
}

/* Gives up the one that was used longest ago, and that no cell uses. */
static bool make_room_for_template(struct template_memory *memory, const char *tenant)
{
	struct memory_template *template, *oldest = NULL;
	uint64_t now = monotonic_ms();

	TAILQ_FOREACH (template, &memory->list, entry)
		/* One that was just asked for is about to be used. */
		if (template->state == READY && template->cells == 0 &&
			template->asked_ms + LIMIT_TEMPLATE_ASKED_MS <= now &&
			(!tenant || strcmp(template->tenant, tenant) == 0) &&
			(!oldest || template->used_ms < oldest->used_ms))
			oldest = template;
	if (oldest)
		give_up_memory_template(memory, oldest);
	return oldest;
}

/* Loading. */

static int map_own(void *context, pid_t pid)
{
	const struct template_memory *memory = context;

	return cell_id_write_maps(memory->ids->own, pid);
}

static int open_template(const struct template_memory *memory, const char *tenant, const char *name,
	struct stat *ret, const char **ret_step)
{
	_cleanup_close_ int fd = place_open(memory->ids->managed, TEMPLATES, tenant, name);

	*ret_step = "open the template";
	if (fd < 0)
		return fd;
	if (fstat(fd, ret) < 0)
		return -errno;
	return ret->st_uid == memory->ids->own.uid ? TAKE_FD(fd) : -EPERM;
}

static pid_t start_copier(
	const struct template_memory *memory, struct memory_template *template, uint64_t bytes)
{
	struct tree_copier copier = {.from = -1,
		.to = -1,
		.uid = memory->ids->own.uid,
		.gid = memory->ids->own.gid,
		.max_bytes = bytes,
		.max_files = LIMIT_COPY_FILES,
		.to_memory = true};
	struct stat now;
	const char *step;
	_cleanup_close_ int fd =
		open_template(memory, template->tenant, template->name, &now, &step);
	pid_t pid;
	int r = fd < 0 ? fd : 0;

	if (r == 0 && !is_same_template(&now, &template->on_disk))
		r = -EAGAIN;
	if (r == 0)
		r = mount_clone(fd, "", 0, &copier.from);
	if (r == 0)
		r = template_holder_fill(&template->holder, &copier.to);
	pid = r < 0 ? r : tree_copier_start(&copier);
	close_fd(&copier.from);
	close_fd(&copier.to);
	return pid;
}

static pid_t begin_memory_template(struct template_memory *memory, struct memory_template *template,
	uint64_t bytes, const char **ret_step)
{
	static char step[GIVER_STEP_BYTES];
	struct template_holder_start start = {.bytes = bytes,
		.inodes = bytes / LIMIT_TEMPLATE_FILE_BYTES + 1,
		.map = map_own,
		.context = memory};
	int r = template_holder_start(&start, &template->holder, step);

	*ret_step = step;
	if (r < 0)
		return r;
	*ret_step = "start a copy of the template";
	r = start_copier(memory, template, bytes);
	if (r < 0) {
		end_holder(template);
		return r;
	}
	template->tries++;
	template->state = LOADS;
	template->bytes = bytes;
	template->began_ms = monotonic_ms();
	memory->n_loads++;
	return r;
}

static void fail_memory_template(
	struct template_memory *memory, struct memory_template *template, int r, const char *step)
{
	uint64_t us = template->began_ms ? (monotonic_ms() - template->began_ms) * 1000 : 0;

	template->bytes = 0;
	memory->tell(memory->context, template->tenant, template->name, r, us,
		memory_taken(memory, template->tenant));
	answer_waits(memory, template, r, step);
	template->state = WAITS;
	drop_memory_template(memory, template);
}

/*
 * A load reserves more than it needs, for nobody knows how much that is. A slow one must not hold
 * up those of other tenants: each that finds no room gets half of what it has not used yet.
 */
static void share_room(struct template_memory *memory, const char *tenant)
{
	struct memory_template *template;
	uint64_t bytes;

	TAILQ_FOREACH (template, &memory->list, entry)
		if (template->state == LOADS && strcmp(template->tenant, tenant) != 0 &&
			template_holder_halve(&template->holder, &bytes) == 0 &&
			bytes < template->bytes)
			template->bytes = bytes;
}

/* Begins to load one whose turn it is, or leaves it until another load has ended. */
static pid_t start_memory_template(struct job *job)
{
	struct template_memory *memory = job->queue->owner;
	struct memory_template *template = (struct memory_template *)job;
	uint64_t limit = most(memory, template->tenant), found;

	memory->step = "load the template into memory";
	while ((found = room(memory, template->tenant)) < template->least &&
		make_room_for_template(memory,
			is_own_bound(memory, template->tenant, template->least) ? template->tenant
										: NULL))
		;
	if ((found <= template->tried || found < LIMIT_TEMPLATE_LEAST_BYTES) &&
		!is_own_bound(memory, template->tenant, found + 1)) {
		share_room(memory, template->tenant);
		found = room(memory, template->tenant);
	}
	if (found > template->tried)
		return begin_memory_template(memory, template, found, &memory->step);
	if (limit == 0)
		return -EOPNOTSUPP;
	if (limit <= template->tried)
		return -EFBIG;
	/* Other loads may leave more than they have reserved. */
	return memory->n_loads > 0 ? JOB_WAITS : -ENOSPC;
}

static size_t count_memory_templates(const struct template_memory *memory, const char *tenant)
{
	const struct memory_template *template;
	size_t n = 0;

	TAILQ_FOREACH (template, &memory->list, entry)
		n += !tenant || strcmp(template->tenant, tenant) == 0;
	return n;
}

/* Whether the tenant may have one more, however small. */
static bool has_place(const struct template_memory *memory, const char *tenant)
{
	struct budget budget = {.held = count_memory_templates(memory, NULL)};

	budget_set(&budget, LIMIT_TEMPLATES_IN_MEMORY,
		policy_templates(memory->policy, tenant).tenants, LIMIT_TEMPLATES_FLOOR);
	return budget_left(&budget, count_memory_templates(memory, tenant)) > 0;
}

static struct memory_template *add_memory_template(struct template_memory *memory,
	const char *tenant, const char *name, const struct stat *on_disk)
{
	struct memory_template *template;

	while (count_memory_templates(memory, tenant) >= LIMIT_TEMPLATES_OF_TENANT)
		if (!make_room_for_template(memory, tenant))
			return NULL;
	while (!has_place(memory, tenant))
		if (!make_room_for_template(memory, NULL))
			return NULL;
	template = calloc(1, sizeof(*template));
	if (!template)
		return NULL;
	*template = (struct memory_template){
		.on_disk = *on_disk, .holder = {.socket = -1}, .least = LIMIT_TEMPLATE_LEAST_BYTES};
	snprintf(template->tenant, sizeof(template->tenant), "%s", tenant);
	snprintf(template->name, sizeof(template->name), "%s", name);
	STAILQ_INIT(&template->waits);
	TAILQ_INSERT_TAIL(&memory->list, template, entry);
	return template;
}

/* Finds the template, or adds it to those that wait. */
static int want(struct template_memory *memory, const char *tenant, const char *name,
	struct memory_template **ret, const char **ret_step)
{
	struct memory_template *template = find_memory_template(memory, tenant, name);
	struct stat on_disk;
	int fd;

	*ret_step = "find memory for the template";
	if (memory->ids->count == 0 || !memory->policy || most(memory, tenant) == 0)
		return -EOPNOTSUPP;
	fd = open_template(memory, tenant, name, &on_disk, ret_step);
	if (fd < 0)
		return fd;
	close(fd);
	if (template && !is_same_template(&template->on_disk, &on_disk)) {
		give_up_memory_template(memory, template);
		template = NULL;
	}
	if (!template)
		template = add_memory_template(memory, tenant, name, &on_disk);
	*ret = template;
	return template ? 0 : -ENOSPC;
}

void template_memory_load(
	struct template_memory *memory, uint64_t number, const char *tenant, const char *name)
{
	struct memory_template *template = NULL;
	struct memory_wait *wait;
	const char *step;
	int r = want(memory, tenant, name, &template, &step);

	if (r == 0)
		template->asked_ms = template->used_ms = monotonic_ms();
	if (r < 0 || template->state == READY) {
		memory->answer(memory->context, number, r, step);
		return;
	}
	wait = memory->n_waits < LIMIT_TEMPLATE_WAITS ? malloc(sizeof(*wait)) : NULL;
	if (!wait) {
		memory->answer(memory->context, number, -EBUSY, step);
		return;
	}
	memory->n_waits++;
	wait->number = number;
	STAILQ_INSERT_TAIL(&template->waits, wait, entry);
	if (template->state == LOADS)
		return;
	if (template->job.turn.state != FAIR_NOWHERE)
		job_queue_go_on(&memory->loads);
	else if (job_add(&memory->loads, &template->job, tenant) < 0)
		fail_memory_template(memory, template, -ENOMEM, "load the template into memory");
}

/* The copy is complete. Learns what it takes. */
static int finish_memory_template(struct memory_template *template)
{
	_cleanup_close_ int tree = -1;
	struct statfs status;
	int r = template_holder_freeze(&template->holder);

	if (r == 0)
		r = template_holder_clone(&template->holder, &tree);
	if (r < 0)
		return r;
	if (fstatfs(tree, &status) < 0)
		return -errno;
	template->bytes = tree_copy_taken(&status);
	return 0;
}

/* Whether it is tried again with more room, which there may be. */
static bool may_grow(const struct template_memory *memory, struct memory_template *template)
{
	uint64_t limit = most(memory, template->tenant);

	template->tried = template->bytes;
	template->least = template->tried > limit / 2 ? limit : 2 * template->tried;
	/* Loads of others may take the room of this one each time. */
	return template->tried < limit && template->tries < LIMIT_TEMPLATE_TRIES;
}

/* Whether the load that has ended is made again. */
static bool load_template_again(struct job *job, int status)
{
	struct template_memory *memory = job->queue->owner;
	struct memory_template *template = (struct memory_template *)job;
	int r = forked_result(status);

	if ((r != -EFBIG && r != -ENOSPC) || !may_grow(memory, template))
		return false;
	memory->n_loads--;
	template->state = WAITS;
	template->bytes = 0;
	end_holder(template);
	return true;
}

static void memory_template_ended(struct job *job, int r)
{
	struct template_memory *memory = job->queue->owner;
	struct memory_template *template = (struct memory_template *)job;

	if (template->state == LOADS) {
		memory->n_loads--;
		template->state = WAITS;
		memory->step = "copy the template into memory";
		if (r == 0)
			r = finish_memory_template(template);
		if (r == -EFBIG || r == -ENOSPC)
			r = template->tried < most(memory, template->tenant) ? -ENOSPC : -EFBIG;
	}
	if (r < 0) {
		fail_memory_template(memory, template, r, memory->step);
		return;
	}
	template->state = READY;
	memory->tell(memory->context, template->tenant, template->name, 0,
		(monotonic_ms() - template->began_ms) * 1000,
		memory_taken(memory, template->tenant));
	answer_waits(memory, template, 0, "");
}

static const struct job_kind loading = {.at_once = LIMIT_TEMPLATE_LOADS,
	.of_tenant = 1,
	.late_ms = LIMIT_COPY_LATE_MS,
	.end_ms = LIMIT_COPY_MS,
	.start = start_memory_template,
	.again = load_template_again,
	.ended = memory_template_ended};

void template_memory_init(struct template_memory *memory, struct jobs *jobs,
	const struct cell_ids *ids, template_memory_answer answer, template_memory_tell tell,
	void *context)
{
	*memory = (struct template_memory){
		.ids = ids, .answer = answer, .tell = tell, .context = context};
	TAILQ_INIT(&memory->list);
	job_queue_init(&memory->loads, jobs, &loading, memory);
}

void template_memory_reaped(struct template_memory *memory, pid_t pid)
{
	struct memory_template *template;

	TAILQ_FOREACH (template, &memory->list, entry)
		if (template->holder.pid == pid)
			break;
	if (!template)
		return;
	giver_end(&template->holder);
	if (template->state == READY)
		give_up_memory_template(memory, template);
	else
		job_end(&template->job, -EIO);
	job_queue_go_on(&memory->loads);
}

/* Use. */

int template_memory_take(struct template_memory *memory, const char *tenant, const char *name,
	const struct stat *on_disk, int *ret_tree, struct memory_template **ret)
{
	struct memory_template *template = find_memory_template(memory, tenant, name);
	int r;

	if (!template || template->state != READY || !is_same_template(&template->on_disk, on_disk))
		return -SPAWNER_NOT_LOADED;
	r = template_holder_clone(&template->holder, ret_tree);
	if (r < 0)
		return r;
	template->cells++;
	*ret = template;
	return 0;
}

void template_memory_leave(struct template_memory *memory, struct memory_template *template)
{
	if (!template)
		return;
	template->cells--;
	template->used_ms = monotonic_ms();
	if (template->cells == 0 && (template->stale || is_too_much(memory, template->tenant)))
		give_up_memory_template(memory, template);
	job_queue_go_on(&memory->loads);
}

void template_memory_tidy(struct template_memory *memory, const char *tenant)
{
	struct memory_template *template, *next;
	struct stat on_disk;
	const char *step;

	for (template = TAILQ_FIRST(&memory->list); template; template = next) {
		int fd;

		next = TAILQ_NEXT(template, entry);
		if (template->stale || template->state != READY)
			continue;
		if (!tenant) {
			if (template->cells == 0 && most(memory, template->tenant) <
							    memory_taken(memory, template->tenant))
				give_up_memory_template(memory, template);
			continue;
		}
		if (strcmp(template->tenant, tenant) != 0)
			continue;
		fd = open_template(memory, template->tenant, template->name, &on_disk, &step);
		if (fd < 0 || !is_same_template(&template->on_disk, &on_disk))
			give_up_memory_template(memory, template);
		close_fd(&fd);
	}
	job_queue_go_on(&memory->loads);
}
