// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It looks up names in cloister's own state directory only, in directories
 * that no workspace can write, and nothing in a workspace or template, which are hostile: a copier
 * reads those.
 */
#include "worker/spawner/copies.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/monotonic.h"
#include "common/selftest_tenants.h"
#include "worker/mounts.h"
#include "worker/spawner/cell_children.h"
#include "worker/spawner/tree_copier.h"
#include "worker/spawner/unpacker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>

struct copy {
	LIST_ENTRY(copy) entry;
	pid_t pid;
	uint64_t number;
	struct live_cell *live; /* keeps a fork's id until its directory has its name */
	bool unpacks;           /* and so may have been taken over; a copier keeps its own bounds */
	uint64_t deadline;
	int target; /* O_PATH, for its file system */
	int ended;  /* -errno: why the spawner has ended it; 0: it has not */
};

/* A copy that is about to begin. */
struct plan {
	const struct cell_maker *maker;
	char tenant[LIMIT_NAME_BYTES + 1], template[LIMIT_TEMPLATE_NAME_BYTES + 1],
		target[LIMIT_NAME_BYTES + 1];
	int target_fd; /* O_PATH */
	struct stat target_stat;
	struct tree_copier copier;
	const char *step, *reason;
};

void copies_init(struct copies *copies)
{
	*copies = (struct copies){0};
	LIST_INIT(&copies->list);
}

/* Only a descriptor of this mount namespace can be cloned, so it is opened by its path. */
static int open_named(int managed, const char *beside, const char *tenant, const char *name)
{
	_cleanup_free_ char *path = managed < 0 ? NULL : fd_path(managed);
	char *slash = path ? strrchr(path, '/') : NULL;
	char full[PATH_MAX];
	int fd;

	if (!slash)
		return -ENOENT;
	if (beside)
		*slash = '\0';
	if (snprintf(full, sizeof(full), "%s%s%s/%s/%s", path, beside ? "/" : "",
		    beside ? beside : "", tenant, name) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	fd = mount_open_point(full, O_DIRECTORY);
	return fd < 0 ? -errno : fd;
}

int template_open(int managed, const char *tenant, const char *name)
{
	return open_named(managed, TEMPLATES, tenant, name);
}

static int refuse(struct plan *plan, const char *reason)
{
	plan->reason = reason;
	return -SPAWNER_REFUSAL;
}

static void take_text(struct text text, char *ret, size_t size)
{
	snprintf(ret, size, "%.*s", (int)text.len, text.data);
}

/* Opens the target, which must be new: still cloister's own. */
static int open_target(struct plan *plan, bool template)
{
	const struct cell_ids *ids = plan->maker->ids;

	plan->step = "open the place of the copy";
	plan->target_fd =
		open_named(ids->managed, template ? TEMPLATES : NULL, plan->tenant, plan->target);
	if (plan->target_fd < 0)
		return plan->target_fd;
	if (fstat(plan->target_fd, &plan->target_stat) < 0)
		return -errno;
	return plan->target_stat.st_uid == ids->own.uid
		       ? 0
		       : refuse(plan, "the place of the copy is not cloister's own");
}

static int begin(
	struct plan *plan, const struct cell_maker *maker, const struct spawner_copy *request)
{
	*plan = (struct plan){.maker = maker,
		.target_fd = -1,
		.copier = {.from = -1,
			.to = -1,
			.max_bytes = request->max_bytes < LIMIT_COPY_BYTES ? request->max_bytes
									   : LIMIT_COPY_BYTES,
			.max_files = request->max_files < LIMIT_COPY_FILES ? request->max_files
									   : LIMIT_COPY_FILES}};
	take_text(request->tenant, plan->tenant, sizeof(plan->tenant));
	take_text(request->template, plan->template, sizeof(plan->template));
	take_text(request->target, plan->target, sizeof(plan->target));
	plan->step = "start a copy";
	if (maker->copies->n >= LIMIT_COPIES)
		return -EBUSY;
	if (!policy_managed(maker->policy, plan->tenant))
		return refuse(plan, "the tenant has no managed workspaces");
	return 0;
}

/* Starts cloister-unpack with the bounds and trees of a copier. */
static pid_t start_unpacker(struct plan *plan, int report)
{
	struct unpacker unpacker = {.program = plan->maker->unpack_program,
		.source = TAKE_FD(plan->copier.from),
		.target = TAKE_FD(plan->copier.to),
		.report = report,
		.id = plan->maker->ids->own,
		.drops_groups = plan->maker->ids->count > 0,
		.max_bytes = plan->copier.max_bytes,
		.max_files = plan->copier.max_files};

	return unpacker_start(&unpacker);
}

/*
 * Starts the copier of a plan that has its source; with the pipe @report cloister-unpack, otherwise
 * that is -1.
 */
static int start(struct plan *plan, uint64_t number, struct live_cell *live, int report)
{
	struct copies *copies = plan->maker->copies;
	struct copy *copy = calloc(1, sizeof(*copy));
	_cleanup_close_ int target = -1;
	pid_t pid;
	int r = copy ? 0 : -ENOMEM;

	plan->step = "start a copy";
	if (r == 0)
		r = mount_clone(plan->target_fd, "", 0, &plan->copier.to);
	if (r == 0 && report >= 0) {
		target = fcntl(plan->target_fd, F_DUPFD_CLOEXEC, 0);
		r = target < 0 ? -errno : 0;
	}
	if (r == 0)
		pid = report >= 0 ? start_unpacker(plan, report) : tree_copier_start(&plan->copier);
	else
		pid = r;
	if (pid < 0) {
		free(copy);
		return pid;
	}
	*copy = (struct copy){.pid = pid,
		.number = number,
		.live = live,
		.unpacks = report >= 0,
		.deadline = monotonic_ms() + LIMIT_COPY_MS,
		.target = TAKE_FD(target)};
	LIST_INSERT_HEAD(&copies->list, copy, entry);
	copies->n++;
	copies->n_unpackers += copy->unpacks;
	return 0;
}

static int done(struct plan *plan, int r, const char **ret_step)
{
	close_fd(&plan->target_fd);
	close_fd(&plan->copier.from);
	close_fd(&plan->copier.to);
	*ret_step = r == -SPAWNER_REFUSAL ? plan->reason : plan->step;
	return r;
}

/* The workspace is one of the tenant's whose templates get the copy. */
static int check_workspace(struct plan *plan, const struct place *place)
{
	char tenant[NAME_MAX + 1] = ".";

	plan->step = place->step;
	if (place->error < 0)
		return place->error;
	if (plan->maker->policy && (!cell_ids_managed_of(plan->maker->ids, place, tenant) ||
					   strcmp(tenant, plan->tenant) != 0))
		return refuse(plan, "it is no managed workspace of the tenant");
	return 0;
}

int copies_freeze(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int worker, const char **ret_step)
{
	struct plan plan;
	int r = begin(&plan, maker, request);

	if (r == 0)
		r = check_workspace(&plan, place);
	plan.step = "find the workspace's cell";
	if (r == 0)
		r = cell_shown(maker, place, worker, &plan.copier.from, &plan.reason);
	if (r == 0)
		r = open_target(&plan, true);
	plan.copier.uid = maker->ids->own.uid;
	plan.copier.gid = maker->ids->own.gid;
	if (r == 0)
		r = start(&plan, number, NULL, -1);
	return done(&plan, r, ret_step);
}

/* The self-test imports archives of its own workspace, and makes templates of its own of them. */
static bool is_of_selftest(const struct plan *plan, const struct place *place)
{
	struct stat directory;

	return strcmp(plan->tenant, SELFTEST_TENANT) == 0 && S_ISREG(place->stat.st_mode) &&
	       fstatat(plan->maker->ids->managed, SELFTEST_TENANT, &directory,
		       AT_SYMLINK_NOFOLLOW) == 0 &&
	       place_is_in(place, (struct directory_id){directory.st_dev, directory.st_ino});
}

/* Neither a workspace of any tenant's, nor anything else of cloister's. */
static int check_source(struct plan *plan, const struct place *place)
{
	plan->step = place->step;
	if (place->error < 0)
		return place->error;
	if (!S_ISDIR(place->stat.st_mode) && !S_ISREG(place->stat.st_mode))
		return refuse(plan, "it is neither a directory nor a regular file any more");
	return is_of_selftest(plan, place) ||
			       (place->n_parents > 0 &&
				       place_is_apart(place, plan->maker->ids->managed))
		       ? 0
		       : refuse(plan, "it is part of cloister's own state");
}

/* With a pipe @report, cloister-unpack reads the source; otherwise a copier does. */
static int take_in(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int report, const char **ret_step)
{
	struct plan plan;
	int r = begin(&plan, maker, request);

	if (r == 0 && report >= 0 && maker->copies->n_unpackers >= LIMIT_UNPACKERS)
		r = -EBUSY;
	if (r == 0)
		r = check_source(&plan, place);
	if (r == 0)
		r = open_target(&plan, true);
	plan.copier.uid = maker->ids->own.uid;
	plan.copier.gid = maker->ids->own.gid;
	plan.copier.unprivileged = true;
	if (r == 0) {
		plan.copier.from = TAKE_FD(place->trees[0]);
		r = start(&plan, number, NULL, report);
	}
	return done(&plan, r, ret_step);
}

int copies_import(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, const char **ret_step)
{
	return take_in(maker, number, request, place, -1, ret_step);
}

int copies_unpack(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int report, const char **ret_step)
{
	return take_in(maker, number, request, place, report, ret_step);
}

/* Gives the copy an id of its own, which no other workspace has. */
static int choose_id(struct plan *plan, struct live_cell **ret)
{
	const struct cell_maker *maker = plan->maker;
	struct id_span span = policy_ids(maker->policy, plan->tenant, maker->ids->count);
	struct cell_id id;
	int r;

	plan->step = "choose the fork's id";
	r = cell_ids_choose(
		maker->ids, plan->target_fd, &plan->target_stat, true, span, &id, &plan->reason);
	if (r == 0)
		r = cell_ids_reserve(maker->ids, id, &plan->target_stat, ret);
	plan->copier.uid = id.uid;
	plan->copier.gid = id.gid;
	return r;
}

static int open_template(struct plan *plan)
{
	const struct cell_ids *ids = plan->maker->ids;
	_cleanup_close_ int template = -1;
	struct stat stat_buf;

	plan->step = "open the template";
	template = template_open(ids->managed, plan->tenant, plan->template);
	if (template <0)
		return template;
	if (fstat(template, &stat_buf) < 0)
		return -errno;
	if (stat_buf.st_uid != ids->own.uid)
		return refuse(plan, "the template is not cloister's own");
	return mount_clone(template, "", 0, &plan->copier.from);
}

int copies_fork(const struct cell_maker *maker, uint64_t number, const struct spawner_copy *request,
	const char **ret_step)
{
	static const pid_t none[2];
	struct live_cell *live = NULL;
	struct plan plan;
	int r = begin(&plan, maker, request);

	if (r == 0)
		r = open_template(&plan);
	if (r == 0)
		r = open_target(&plan, false);
	if (r == 0)
		r = choose_id(&plan, &live);
	if (r == 0)
		r = start(&plan, number, live, -1);
	if (r < 0)
		cell_ids_holds(live, none);
	return done(&plan, r, ret_step);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Whether others could soon write nothing more. Some file systems, such as btrfs, count no files.
 */
static bool is_nearly_full(int fd)
{
	struct statfs found;

	if (fstatfs(fd, &found) < 0)
		return false;
	return (uint64_t)found.f_bavail * (uint64_t)found.f_frsize <
		       smaller(LIMIT_UNPACK_FREE_BYTES, (uint64_t)found.f_blocks *
								(uint64_t)found.f_frsize /
								LIMIT_UNPACK_FREE_PART) ||
	       found.f_ffree <
		       smaller(LIMIT_UNPACK_FREE_FILES, found.f_files / LIMIT_UNPACK_FREE_PART);
}

static void end(struct copy *copy, int error)
{
	copy->ended = error;
	kill(copy->pid, SIGKILL);
}

/*
 * A process that is pid 1 of its namespace is not ended by a timer of its own; and one that was
 * taken over counts no bytes and no files.
 */
int copies_bound(const struct copies *copies)
{
	struct copy *copy;
	int next = -1;

	LIST_FOREACH (copy, &copies->list, entry) {
		int left;

		if (!copy->unpacks || copy->ended < 0)
			continue;
		left = monotonic_left_ms(copy->deadline);
		if (left == 0)
			end(copy, -ETIMEDOUT);
		else if (is_nearly_full(copy->target))
			end(copy, -ENOSPC);
		else
			next = LIMIT_UNPACK_LOOK_MS; /* at most this late */
	}
	return next;
}

bool copies_reaped(
	struct copies *copies, pid_t pid, int status, uint64_t *ret_number, int *ret_result)
{
	static const pid_t none[2];
	struct copy *copy;

	LIST_FOREACH (copy, &copies->list, entry)
		if (copy->pid == pid)
			break;
	if (!copy)
		return false;
	*ret_number = copy->number;
	*ret_result = copy->ended < 0 ? copy->ended
		      : copy->unpacks ? unpacker_result(status)
				      : tree_copier_result(status);
	close_fd(&copy->target);
	copies->n_unpackers -= copy->unpacks;
	cell_ids_holds(copy->live, none);
	LIST_REMOVE(copy, entry);
	copies->n--;
	free(copy);
	return true;
}
