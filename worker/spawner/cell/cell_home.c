// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It looks up names in cloister's own state directory only, and nothing below
 * a home, which is hostile: it opens a home, clones its mount and gives that to the worker.
 */
#include "worker/spawner/cell/cell_home.h"

#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/fd_path.h"
#include "common/limits.h"
#include "common/tenant_log.h"
#include "worker/mounts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define GONE ".gone-"

/* A home that the sweep at the start looks at. */
struct home_name {
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	char name[NAME_MAX + 1];
};

/* A home that a cell uses. */
struct live_home {
	LIST_ENTRY(live_home) entry;
	struct home_name of;
	pid_t worker; /* 0 while the cell is made */
};

/* A home to be measured, or a former one whose content is to be removed. */
struct home_job {
	struct sweep sweep; /* first */
	LIST_ENTRY(home_job) entry;
	struct home_name of;
};

/* Names. */

static struct home_name home_name(const char *tenant, const char *name)
{
	struct home_name of;

	snprintf(of.tenant, sizeof(of.tenant), "%s", tenant);
	snprintf(of.name, sizeof(of.name), "%s", name);
	return of;
}

static bool is_same_home(const struct home_name *a, const struct home_name *b)
{
	return strcmp(a->tenant, b->tenant) == 0 && strcmp(a->name, b->name) == 0;
}

static bool is_gone(const char *name)
{
	return strncmp(name, GONE, strlen(GONE)) == 0;
}

/* Writes the home's name of the directory @path, or returns -ENAMETOOLONG. */
static int encode(const char *path, char ret[NAME_MAX + 1])
{
	size_t len = 0;

	for (; *path; path++) {
		const char *as = *path == '/'   ? ":"
				 : *path == ':' ? "%3A"
				 : *path == '%' ? "%25"
						: NULL;
		size_t n = as ? strlen(as) : 1;

		if (len + n > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(ret + len, as ? as : path, n);
		len += n;
	}
	ret[len] = '\0';
	return 0;
}

/* The reverse of encode(). @ret is at least as large as the name. */
static void decode_home_name(const char *name, char *ret)
{
	for (; *name; name++) {
		bool escaped = *name == '%' && name[1] && name[2];

		*ret++ = *name == ':' ? '/' : !escaped ? *name : name[1] == '3' ? ':' : '%';
		name += escaped ? 2 : 0;
	}
	*ret = '\0';
}

/* Directories. */

/*
 * Opens "homes" beside the directory of managed workspaces by its path, because only a descriptor
 * of this mount namespace can be cloned. Returns -ENOENT if there is none and it shall not be made.
 */
static int open_all(struct cell_homes *homes, bool make)
{
	_cleanup_free_ char *path = homes->managed < 0 ? NULL : fd_path(homes->managed);
	_cleanup_close_ int state = -1;
	char *slash = path ? strrchr(path, '/') : NULL;

	if (homes->root >= 0)
		return 0;
	if (!slash)
		return -ENOENT;
	slash[slash == path] = '\0';
	state = mount_open_point(path, O_DIRECTORY);
	if (state < 0)
		return -errno;
	if (make)
		return mount_make_directory(state, "homes", 0700, &homes->root);
	homes->root = openat(state, "homes", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return homes->root < 0 ? -errno : 0;
}

static int open_tenant(const struct cell_homes *homes, const char *tenant)
{
	int fd = openat(homes->root, tenant, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static bool is_live(const struct cell_homes *homes, const struct home_name *of)
{
	const struct live_home *live;

	LIST_FOREACH (live, &homes->live, entry)
		if (is_same_home(&live->of, of))
			return true;
	return false;
}

/* Whether the home's managed workspace exists. An error counts as yes. */
static bool has_workspace(const struct cell_homes *homes, const struct home_name *of)
{
	char path[sizeof(struct home_name) + 1];
	struct stat stat_buf;

	snprintf(path, sizeof(path), "%s/%s", of->tenant, of->name);
	return fstatat(homes->managed, path, &stat_buf, AT_SYMLINK_NOFOLLOW) == 0 ||
	       errno != ENOENT;
}

/* Returns when the file was made, in ns, or -1 where the file system does not tell. */
static int64_t birth_of(int parent, const char *path)
{
	struct statx status;

	if (statx(parent, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &status) < 0 ||
		!(status.stx_mask & STATX_BTIME))
		return -1;
	return status.stx_btime.tv_sec * 1000000000LL + status.stx_btime.tv_nsec;
}

/*
 * Whether the home's managed workspace was made after the home, which therefore belongs to an
 * earlier workspace of that name.
 */
static bool has_newer_workspace(const struct cell_homes *homes, const struct home_name *of)
{
	char path[sizeof(struct home_name) + 1];
	int64_t home;

	snprintf(path, sizeof(path), "%s/%s", of->tenant, of->name);
	home = birth_of(homes->root, path);
	return home >= 0 && birth_of(homes->managed, path) > home;
}

/* Sweeping. */

static void add_job(struct cell_homes *homes, const struct home_name *of)
{
	struct home_job *job;

	LIST_FOREACH (job, &homes->jobs, entry)
		if (is_same_home(&job->of, of) && job->sweep.job.pid == 0)
			return;
	/* Without memory the home is left out. The next start, or the end of its next cell, adds it
	 * again. */
	job = calloc(1, sizeof(*job));
	if (!job)
		return;
	job->of = *of;
	LIST_INSERT_HEAD(&homes->jobs, job, entry);
	if (sweep_add(&homes->sweeps, &job->sweep, of->tenant) == 0)
		return;
	LIST_REMOVE(job, entry);
	free(job);
}

/* Takes a home out of use, and has it cleared. */
static int put_aside(struct cell_homes *homes, int tenant, const struct home_name *of)
{
	struct home_name gone = *of;
	int r;

	do {
		snprintf(gone.name, sizeof(gone.name), GONE "%llu",
			(unsigned long long)homes->gone++);
		r = renameat2(tenant, of->name, tenant, gone.name, RENAME_NOREPLACE);
	} while (r < 0 && errno == EEXIST);
	if (r < 0)
		return -errno;
	add_job(homes, &gone);
	return 0;
}

static pid_t start_home_cleaner(struct job *job)
{
	struct cell_homes *homes = job->queue->owner;
	const struct home_name *of = &((struct home_job *)job)->of;
	_cleanup_close_ int tenant = open_tenant(homes, of->tenant), fd = -1;
	uint64_t max_bytes = policy_home(homes->policy, of->tenant).bytes;

	if (tenant < 0)
		return tenant;
	/* The configuration has no such tenant any more, and so no size. */
	if (!is_gone(of->name) && max_bytes == 0)
		return -ENOENT;
	fd = openat(tenant, of->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return is_gone(of->name) ? sweep_clear(&homes->sweeps, fd)
				 : sweep_measure(&homes->sweeps, fd, max_bytes);
}

static bool clear_home_again(struct job *job, int status)
{
	struct cell_homes *homes = job->queue->owner;

	return sweep_goes_on(&homes->sweeps, (struct sweep *)job, status);
}

static void log_swept(const struct home_name *of, const char *what)
{
	if (tenant_log_may(text_from(of->tenant)))
		fprintf(stderr, "cloister-spawner: tenant %s: the home %s %s\n", of->tenant,
			of->name, what);
}

static void home_job_ended(struct job *job, int result)
{
	struct cell_homes *homes = job->queue->owner;
	struct home_job *swept = (struct home_job *)job;
	struct home_name of = swept->of;
	_cleanup_close_ int tenant = open_tenant(homes, of.tenant);

	LIST_REMOVE(swept, entry);
	free(swept);
	if (tenant < 0)
		return;
	if (is_gone(of.name)) {
		if (unlinkat(tenant, of.name, AT_REMOVEDIR) < 0 && errno != ENOENT)
			log_swept(&of, "could not be removed; the next start tries again");
	} else if (result == -EFBIG && !homes->beside && !is_live(homes, &of)) {
		/* A cell uses the home again, so the end of that cell measures it again. */
		if (put_aside(homes, tenant, &of) == 0)
			log_swept(&of,
				"is larger than home_size, or has too many files, and is emptied");
	}
}

static const struct job_kind sweeping = {SWEEP_BOUNDS, .start = start_home_cleaner,
	.again = clear_home_again, .ended = home_job_ended};

void cell_homes_init(struct cell_homes *homes, struct jobs *jobs, int managed)
{
	*homes = (struct cell_homes){.managed = managed, .root = -1};
	LIST_INIT(&homes->live);
	LIST_INIT(&homes->jobs);
	job_queue_init(&homes->sweeps.jobs, jobs, &sweeping, homes);
}

void cell_homes_reaped(struct cell_homes *homes, pid_t pid)
{
	struct live_home *live;

	LIST_FOREACH (live, &homes->live, entry)
		if (live->worker == pid)
			break;
	if (live) {
		struct home_name of = live->of;

		LIST_REMOVE(live, entry);
		free(live);
		add_job(homes, &of);
	}
}

static void forget_cell_home(struct cell_homes *homes, const struct home_name *of)
{
	_cleanup_close_ int tenant = open_tenant(homes, of->tenant);

	if (tenant >= 0)
		(void)put_aside(homes, tenant, of);
}

void cell_homes_forget(struct cell_homes *homes, const char *tenant, const char *name)
{
	struct home_name of = home_name(tenant, name);

	if (strchr(tenant, '/') || strchr(name, '/') || !*tenant || tenant[0] == '.' || !*name ||
		name[0] == '.' || name[0] == ':' || open_all(homes, false) < 0)
		return;
	/* cloisterd may have made a workspace of that name again before this message was read. */
	if (has_workspace(homes, &of) && !has_newer_workspace(homes, &of))
		return;
	forget_cell_home(homes, &of);
}

/* The sweep at the start. */

struct directory_look {
	struct cell_homes *homes;
	struct home_name of;
};

static void on_looked(void *context, int error, struct place *place)
{
	_cleanup_free_ struct directory_look *look = context;

	if (error == 0 && place->error == -ENOENT && !is_live(look->homes, &look->of))
		forget_cell_home(look->homes, &look->of);
}

/* Has the directory of the home looked up, whose file system may hang. */
static void look_for_directory(
	struct cell_homes *homes, struct path_resolvers *resolvers, const struct home_name *of)
{
	static int everything = -1;
	struct directory_look *look = malloc(sizeof(*look));
	char path[NAME_MAX + 1];

	if (everything < 0)
		everything = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (!look || everything < 0) {
		free(look);
		return;
	}
	*look = (struct directory_look){homes, *of};
	decode_home_name(of->name, path);
	if (path_resolvers_ask(resolvers,
		    &(struct look_request){.kind = LOOK_UP,
			    .fd = everything,
			    .tenant = look->of.tenant,
			    .path = path},
		    on_looked, look) < 0)
		free(look); /* too many: it is found at a later start */
}

static void sweep_one(
	struct cell_homes *homes, struct path_resolvers *resolvers, const struct home_name *of)
{
	if (is_gone(of->name)) {
		add_job(homes, of);
	} else if (of->name[0] == ':') {
		add_job(homes, of);
		look_for_directory(homes, resolvers, of);
	} else if (of->name[0] != '.') {
		if (has_workspace(homes, of))
			add_job(homes, of);
		else
			forget_cell_home(homes, of);
	}
}

void cell_homes_sweep(struct cell_homes *homes, struct path_resolvers *resolvers)
{
	const struct dirent *tenant, *home;
	DIR *all, *of_tenant;

	if (!homes->policy || open_all(homes, false) < 0)
		return;
	all = directory_read(homes->root, ".");
	while (all && (tenant = readdir(all))) {
		if (tenant->d_name[0] == '.' || strlen(tenant->d_name) > LIMIT_CONFIG_NAME_BYTES)
			continue;
		of_tenant = directory_read(homes->root, tenant->d_name);
		while (of_tenant && (home = readdir(of_tenant))) {
			struct home_name of = home_name(tenant->d_name, home->d_name);

			sweep_one(homes, resolvers, &of);
		}
		if (of_tenant)
			closedir(of_tenant);
	}
	if (all)
		closedir(all);
}

void cell_homes_set_beside(struct cell_homes *homes, bool beside)
{
	homes->beside = beside;
	job_queue_hold(&homes->sweeps.jobs, beside);
}

/* Opening. */

struct oldest {
	size_t count;
	struct timespec time;
	struct home_name of; /* name[0] == 0: all homes are in use */
};

static bool is_before(struct timespec a, struct timespec b)
{
	return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

static int find_oldest(
	const struct cell_homes *homes, int tenant, const char *tenant_name, struct oldest *ret)
{
	DIR *directory = directory_read(tenant, ".");
	const struct dirent *entry;
	struct stat stat_buf;

	*ret = (struct oldest){0};
	if (!directory)
		return -errno;
	while ((entry = readdir(directory))) {
		struct home_name of = home_name(tenant_name, entry->d_name);

		if (entry->d_name[0] == '.')
			continue;
		ret->count++;
		if (is_live(homes, &of) ||
			fstatat(tenant, of.name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0 ||
			(ret->of.name[0] && !is_before(stat_buf.st_mtim, ret->time)))
			continue;
		ret->time = stat_buf.st_mtim;
		ret->of = of;
	}
	closedir(directory);
	return 0;
}

/*
 * A tenant that makes homes and gives them up faster than they are cleared waits: what it has given
 * up takes room on the disk.
 */
static int wait_for_cleaners(
	const struct cell_homes *homes, const struct home_name *of, const char **ret_reason)
{
	const struct home_job *job;
	size_t waiting = 0;

	LIST_FOREACH (job, &homes->jobs, entry)
		waiting += is_gone(job->of.name) && strcmp(job->of.tenant, of->tenant) == 0;
	if (waiting < LIMIT_HOMES_GONE)
		return 0;
	*ret_reason = "too many of the tenant's former homes are still being cleared: try again in "
		      "a moment";
	return -SPAWNER_NOT_NOW;
}

/* A tenant has at most @max homes. To make room, the home that has not been opened for the longest
 * time is put aside, unless a cell uses it. */
static int make_room_for_home(struct cell_homes *homes, int tenant, const struct home_name *of,
	uint64_t max, const char **ret_reason)
{
	struct oldest oldest;
	int r = find_oldest(homes, tenant, of->tenant, &oldest);

	if (r < 0 || oldest.count < max)
		return r;
	if (homes->beside) {
		*ret_reason =
			"the tenant has as many kept homes as workspaces_existing allows, and the "
			"service that this one replaces may use them: try again when it has ended";
		return -SPAWNER_NOT_NOW;
	}
	*ret_reason = "the tenant has as many kept homes in use as workspaces_existing allows: "
		      "close a workspace first";
	return oldest.of.name[0] ? put_aside(homes, tenant, &oldest.of) : -SPAWNER_REFUSAL;
}

/* Makes way for a new home. @is_former: the one that is there was another workspace's. */
static int make_way(struct cell_homes *homes, int tenant, const struct home_name *of,
	bool is_former, uint64_t max, const char **ret_reason)
{
	int r = wait_for_cleaners(homes, of, ret_reason);

	if (r == 0 && is_former && put_aside(homes, tenant, of) < 0)
		r = -EBUSY;
	return r < 0 ? r : make_room_for_home(homes, tenant, of, max, ret_reason);
}

/*
 * Opens the home. It is replaced if it belongs to another id: an earlier workspace of the same name
 * left it, or it was never given to an id.
 */
static int open_home(struct cell_homes *homes, int tenant, const struct home_name *of,
	struct cell_id id, uint64_t max, const char **ret_reason)
{
	struct stat stat_buf;
	bool is_new = fstatat(tenant, of->name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0;
	bool is_former = !is_new && (!S_ISDIR(stat_buf.st_mode) || stat_buf.st_uid != id.uid);
	int fd, r = is_new && errno != ENOENT ? -errno : 0;

	if (r == 0 && (is_new || is_former))
		r = make_way(homes, tenant, of, is_former, max, ret_reason);
	if (r < 0)
		return r;
	if (mkdirat(tenant, of->name, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(tenant, of->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Commands may have changed the mode. The time is that of the last opening. */
static int prepare_home(int fd, struct cell_id id)
{
	char link[64];

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (fchownat(fd, "", id.uid, id.gid, AT_EMPTY_PATH) < 0 || chmod(link, 0700) < 0 ||
		utimensat(AT_FDCWD, link, NULL, 0) < 0)
		return -errno;
	return 0;
}

static int take_cell_home(struct cell_homes *homes, const struct home_name *of, struct cell_id id,
	uint64_t max, int *ret_tree, const char **ret_reason)
{
	_cleanup_close_ int tenant = -1, fd = -1;
	int r = open_all(homes, true);

	if (r == 0)
		r = mount_make_directory(homes->root, of->tenant, 0700, &tenant);
	if (r < 0)
		return r;
	fd = open_home(homes, tenant, of, id, max, ret_reason);
	if (fd < 0)
		return fd;
	r = prepare_home(fd, id);
	return r < 0 ? r : mount_clone(fd, "", 0, ret_tree);
}

int cell_homes_take(struct cell_homes *homes, const char *tenant, const struct place *place,
	bool is_managed, struct cell_id id, int *ret_tree, struct live_home **ret_live,
	const char **ret_reason)
{
	struct policy_home policy = policy_home(homes->policy, tenant);
	struct live_home *live;
	int r = 0;

	*ret_tree = -1;
	*ret_live = NULL;
	if (!policy.is_kept || homes->managed < 0)
		return 0;
	live = calloc(1, sizeof(*live));
	if (!live)
		return -ENOMEM;
	live->of = home_name(tenant, is_managed ? strrchr(place->path, '/') + 1 : "");
	if (!is_managed)
		r = encode(place->path, live->of.name);
	*ret_reason = "the path of the directory is too long for home = kept: open a directory "
		      "with a shorter path, or ask the administrator for home = temporary";
	r = r < 0 ? -SPAWNER_REFUSAL
		  : take_cell_home(homes, &live->of, id, policy.max_homes, ret_tree, ret_reason);
	if (r < 0) {
		free(live);
		return r;
	}
	LIST_INSERT_HEAD(&homes->live, live, entry);
	*ret_live = live;
	return 0;
}

void cell_homes_holds(struct live_home *live, pid_t worker)
{
	if (!live)
		return;
	live->worker = worker;
	if (worker != 0)
		return;
	LIST_REMOVE(live, entry);
	free(live);
}
