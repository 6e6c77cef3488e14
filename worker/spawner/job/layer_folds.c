// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child, the layer merger, which executes no program. Names are
 * looked up in cloister's own state directory only; below the directories "u", which are hostile,
 * by the child alone.
 */
#include "worker/spawner/job/layer_folds.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/layer_stack.h"
#include "common/tenant_log.h"
#include "worker/mounts.h"
#include "worker/spawner/job/layer_drops.h"
#include "worker/spawner/job/layer_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define UNFINISHED     LAYERS_DROPPED "fold-" /* so the next start clears it */
#define IOPRIO_PROCESS 1
#define IOPRIO_IDLE    (3 << 13) /* ioprio_set(2) */
#define LAYERS_ROOM    "l"

struct layer_fold {
	struct job job; /* first */
	LIST_ENTRY(layer_fold) entry;
	char tenant[NAME_MAX + 1], layers[NAME_MAX + 1];
	uint32_t high, low, below;
	bool begun;
	char unfinished[64]; /* directory that is filled; "": none is made yet */
};

struct child {
	struct forked forked; /* its ids are those of the workspace */
	const struct layer_fold *fold;
	int layers; /* detached mount of the directory that has the layers */
};

/* The child. */

static int take_idle_time(void *context)
{
	(void)syscall(SYS_ioprio_set, IOPRIO_PROCESS, 0, IOPRIO_IDLE);
	return forked_take_idle_time(context);
}

/* A fold that takes longer is given up. What waits for a disk, or for idle time, does not count. */
static int bound_time(void *context)
{
	static const struct rlimit bound = {LIMIT_LAYERS_FOLD_CPU_S, LIMIT_LAYERS_FOLD_CPU_S};

	(void)context;
	return setrlimit(RLIMIT_CPU, &bound) < 0 ? -errno : 0;
}

/* Links lead from one layer to another, so they must be in one mount. */
static int make_fold_root(void *context)
{
	static const uint64_t inert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	struct child *child = context;
	_cleanup_close_ int room = -1, point = -1;
	int r = mount_set(child->layers, inert);

	if (r == 0)
		r = mount_new_tmpfs(0755, 16 * KIB, 8, inert, &room);
	if (r == 0)
		r = mount_attach(room, AT_FDCWD, "/");
	if (r == 0)
		r = mount_make_directory(room, LAYERS_ROOM, 0700, &point);
	if (r == 0)
		r = mount_attach_over(child->layers, point);
	return r == 0 && fchdir(room) < 0 ? -errno : r;
}

static int enter_layers(void *context)
{
	(void)context;
	return chdir(LAYERS_ROOM) < 0 ? -errno : 0;
}

static const struct setup_step steps[] = {
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
	{"take idle time only", take_idle_time},
	{"unshare its mount namespace", forked_leave_mounts},
	{"make mounts private", setup_private_mounts},
	{"attach the layers", make_fold_root},
	{"leave the host's root", setup_leave_host},
	{"become the workspace's id", forked_become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
	{"enter the layers", enter_layers},
	{"bound its time", bound_time},
};

static int open_upper(uint32_t number, uint32_t below)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%u-%u/u", number, below);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int merge(void *context)
{
	const struct layer_fold *fold = ((const struct child *)context)->fold;
	_cleanup_close_ int low = open_upper(fold->low, fold->below),
			    high = open_upper(fold->high, fold->low), to = -1;
	char path[sizeof(fold->unfinished) + 2];

	snprintf(path, sizeof(path), "%s/u", fold->unfinished);
	to = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return low < 0 || high < 0 || to < 0 ? -EIO : layer_merge(low, high, to);
}

static const struct forked_kind merger = {"cloister-merge", steps, ARRAY_SIZE(steps), merge};

/* The spawner's side. */

static void log_given_up(const struct layer_fold *fold, int result)
{
	if (tenant_log_may(text_from(fold->tenant)))
		fprintf(stderr,
			"cloister-spawner: two layers of %s/%s were not made one: %s; the next "
			"checkpoint tries again\n",
			fold->tenant, fold->layers,
			result == -EIO ? "the layer merger was ended" : strerror(-result));
}

/* By its path: it is cloned, which the spawner may do in its own mount namespace only. */
static int open_folded_layers(const struct layer_folds *folds, const struct layer_fold *fold)
{
	_cleanup_free_ char *managed = fd_path(folds->managed);
	_cleanup_close_ int fd = -1;
	struct stat stat_buf;
	char path[PATH_MAX];

	if (!managed || snprintf(path, sizeof(path), "%s/%s/%s", managed, fold->tenant,
				fold->layers) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mount_open_point(path, O_DIRECTORY);
	if (fd < 0 || fstat(fd, &stat_buf) < 0)
		return -errno;
	/* It is cloister's own: a workspace's id could exchange its layers. */
	return stat_buf.st_uid != geteuid() ? -EPERM : TAKE_FD(fd);
}

static bool is_there(int layers, const char *name)
{
	return faccessat(layers, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void name_pair(const struct layer_fold *fold, char ret_high[32], char ret_low[32])
{
	snprintf(ret_high, 32, "%u-%u", fold->high, fold->low);
	snprintf(ret_low, 32, "%u-%u", fold->low, fold->below);
}

static void name_folded(const struct layer_fold *fold, char ret[64])
{
	snprintf(ret, 64, LAYERS_FOLDED "%u-%u-%u", fold->high, fold->low, fold->below);
}

/*
 * A name that nothing has had before, here or with another spawner: what is left of an earlier try
 * may still be waiting to be cleared, and must not take this one with it.
 */
static int make_unfinished(int layers, struct layer_fold *fold)
{
	static unsigned long last;
	struct timespec now;
	char name[sizeof(fold->unfinished)];

	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(name, sizeof(name), UNFINISHED "%lld.%09ld.%lu", (long long)now.tv_sec,
		now.tv_nsec, last++);
	if (mkdirat(layers, name, 0711) < 0)
		return -errno;
	memcpy(fold->unfinished, name, sizeof(name));
	return fchmodat(layers, name, 0711, 0) < 0 ? -errno : 0;
}

/* Makes the directory for the one layer, of the id that has both. */
static int make_target(int layers, struct layer_fold *fold, struct child *ret)
{
	char high[32], low[32], name[64], path[sizeof(fold->unfinished) + 2];
	struct stat of_high, of_low;
	int r;

	name_folded(fold, name);
	if (is_there(layers, name))
		return -EEXIST;
	name_pair(fold, high, low);
	snprintf(path, sizeof(path), "%s/u", high);
	if (fstatat(layers, path, &of_high, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	snprintf(path, sizeof(path), "%s/u", low);
	if (fstatat(layers, path, &of_low, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(of_high.st_mode) || !S_ISDIR(of_low.st_mode) ||
		of_high.st_uid != of_low.st_uid)
		return -EPERM;
	r = make_unfinished(layers, fold);
	if (r < 0)
		return r;
	snprintf(path, sizeof(path), "%s/u", fold->unfinished);
	if (mkdirat(layers, path, 0700) < 0 ||
		fchownat(layers, path, of_high.st_uid, of_high.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	ret->forked.uid = of_high.st_uid;
	ret->forked.gid = of_high.st_gid;
	return 0;
}

static pid_t start_layer_fold(struct job *job)
{
	const struct layer_folds *folds = job->queue->owner;
	struct layer_fold *fold = (struct layer_fold *)job;
	_cleanup_close_ int layers = open_folded_layers(folds, fold);
	struct child child = {
		.forked = {.n_kept = 1, .reads_all = true},
		.fold = fold,
		.layers = -1,
	};
	int r = layers < 0 ? layers : make_target(layers, fold, &child);
	pid_t pid;

	if (r == 0)
		r = mount_clone(layers, "", 0, &child.layers);
	if (r < 0)
		return r;
	child.forked.kept[0] = child.layers;
	pid = forked_start(&merger, &child.forked);
	fold->begun = pid > 0;
	close_fd(&child.layers);
	return pid;
}

/* What is not finished is cleared like a layer that was dropped. */
static void give_up_fold(struct layer_folds *folds, struct layer_fold *fold)
{
	char path[NAME_MAX + sizeof(fold->unfinished) + 1];

	if (fold->unfinished[0]) {
		snprintf(path, sizeof(path), "%s/%s", fold->layers, fold->unfinished);
		layer_drops_add(folds->drops, fold->tenant, path);
	}
	LIST_REMOVE(fold, entry);
	free(fold);
}

static void tell_fold_end(const struct layer_folds *folds, const struct layer_fold *fold, int error)
{
	uint64_t us = fold->begun ? job_us(&fold->job) : 0;
	char path[NAME_MAX + 64];

	snprintf(path, sizeof(path), "%s/%u-%u-%u", fold->layers, fold->high, fold->low,
		fold->below);
	if (folds->tell)
		folds->tell(folds->context, fold->tenant, path, error, us);
}

/* Gives what the layer merger has filled its name. Returns 0 or -errno. */
static int put_in_place(const struct layer_folds *folds, struct layer_fold *fold)
{
	_cleanup_close_ int layers = open_folded_layers(folds, fold);
	char name[64];

	name_folded(fold, name);
	if (layers < 0 || renameat2(layers, fold->unfinished, layers, name, RENAME_NOREPLACE) < 0)
		return -EIO;
	fold->unfinished[0] = '\0';
	return 0;
}

static void layer_fold_ended(struct job *job, int result)
{
	struct layer_folds *folds = job->queue->owner;
	struct layer_fold *fold = (struct layer_fold *)job;
	bool was_killed = job->ended < 0;

	if (result == 0)
		result = put_in_place(folds, fold);
	if (fold->begun && result < 0 && !was_killed)
		log_given_up(fold, result);
	/* It was made before, and waits to be put in force; or its layers are gone. */
	if (!was_killed && (fold->begun || (result != -EEXIST && result != -ENOENT)))
		tell_fold_end(folds, fold, result);
	give_up_fold(folds, fold);
	if (was_killed && --folds->n_ending == 0)
		layer_drops_hold(folds->drops, false);
}

static const struct job_kind folding = {.at_once = 1,
	.of_tenant = 1,
	.late_ms = LIMIT_LAYERS_FOLD_LATE_MS,
	.start = start_layer_fold,
	.ended = layer_fold_ended};

void layer_folds_init(
	struct layer_folds *folds, struct jobs *jobs, int managed, struct layer_drops *drops)
{
	*folds = (struct layer_folds){.managed = managed, .drops = drops};
	LIST_INIT(&folds->list);
	job_queue_init(&folds->queue, jobs, &folding, folds);
}

static bool read_path(const char *path, struct layer_fold *ret)
{
	const char *slash = strchr(path, '/');
	char again[64];

	if (!slash || strncmp(path, LAYERS_PREFIX, strlen(LAYERS_PREFIX)) != 0 ||
		slash - path >= (ptrdiff_t)sizeof(ret->layers) ||
		sscanf(slash + 1, "%9u-%9u-%9u", &ret->high, &ret->low, &ret->below) != 3)
		return false;
	snprintf(ret->layers, sizeof(ret->layers), "%.*s", (int)(slash - path), path);
	snprintf(again, sizeof(again), "%u-%u-%u", ret->high, ret->low, ret->below);
	return strcmp(again, slash + 1) == 0 && ret->high > ret->low && ret->low > ret->below;
}

/* Whether there is room for @added. */
static bool folds_have_room(const struct layer_folds *folds, const struct layer_fold *added)
{
	const struct layer_fold *fold;
	size_t n = 0;

	LIST_FOREACH (fold, &folds->list, entry) {
		if (strcmp(fold->tenant, added->tenant) != 0)
			continue;
		/* Its layers have one pair that is next: this one's time comes after it. */
		if (strcmp(fold->layers, added->layers) == 0 || ++n >= LIMIT_LAYERS_FOLDS)
			return false;
	}
	return true;
}

void layer_folds_add(struct layer_folds *folds, const char *tenant, const char *path)
{
	struct layer_fold *fold;

	if (folds->managed < 0 || folds->beside || strchr(tenant, '/') || !*tenant ||
		strcmp(tenant, "..") == 0)
		return;
	/* Without memory or room it is asked for again, after the next checkpoint. */
	fold = calloc(1, sizeof(*fold));
	if (!fold || snprintf(fold->tenant, sizeof(fold->tenant), "%s", tenant) < 0 ||
		!read_path(path, fold) || !folds_have_room(folds, fold)) {
		free(fold);
		return;
	}
	LIST_INSERT_HEAD(&folds->list, fold, entry);
	if (job_add(&folds->queue, &fold->job, fold->tenant) < 0)
		give_up_fold(folds, fold);
}

/* Nothing is cleared until it has ended: it may have begun to write there. */
static void end_merger(struct layer_folds *folds, struct layer_fold *fold)
{
	if (fold->job.ended < 0)
		return;
	folds->n_ending++;
	layer_drops_hold(folds->drops, true);
	job_end(&fold->job, -ECANCELED);
}

void layer_folds_tell(struct layer_folds *folds, layer_folded folded, void *context)
{
	folds->tell = folded;
	folds->context = context;
}

void layer_folds_look(struct layer_folds *folds)
{
	struct layer_fold *fold;
	char high[32], low[32];

	LIST_FOREACH (fold, &folds->list, entry) {
		_cleanup_close_ int layers = -1;

		if (fold->job.pid == 0)
			continue;
		layers = open_folded_layers(folds, fold);
		name_pair(fold, high, low);
		if (layers < 0 || !is_there(layers, high) || !is_there(layers, low))
			end_merger(folds, fold);
	}
}

void layer_folds_set_beside(struct layer_folds *folds, bool beside)
{
	struct layer_fold *fold, *next;

	folds->beside = beside;
	for (fold = beside ? LIST_FIRST(&folds->list) : NULL; fold; fold = next) {
		next = LIST_NEXT(fold, entry);
		if (fold->job.pid > 0) {
			end_merger(folds, fold);
		} else {
			job_cancel(&fold->job);
			give_up_fold(folds, fold);
		}
	}
}
