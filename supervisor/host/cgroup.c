// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. It trusts the kernel's files about cgroups, and nothing that a workspace can
 * write.
 */
#include "supervisor/host/cgroup.h"

#include "common/cgroup_file.h"
#include "common/cleanup.h"
#include "common/directory_read.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/mountinfo.h"
#include "supervisor/base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUPERVISOR_WEIGHT 1000 /* cloisterd must answer whatever workspaces do */

#define MEMORY_NUMBERS    65535 /* MEM_CGROUP_ID_MAX of the kernel */
#define SUPERVISOR        "supervisor"
#define GENERATION        "gen-"
#define LEFT_OVER_WAIT_MS 1000

static bool begins_with(struct text text, struct text start)
{
	return text.data && text.len >= start.len && memcmp(text.data, start.data, start.len) == 0;
}

int cgroup_own_path(struct text proc_cgroup, struct text *ret)
{
	const struct text unified = TEXT_LITERAL("0::");

	while (proc_cgroup.len > 0) {
		struct text line = text_take(&proc_cgroup, '\n');

		if (!begins_with(line, unified))
			continue;
		line.data += unified.len;
		line.len -= unified.len;
		if (line.len == 0 || line.data[0] != '/')
			return -EBADMSG;
		*ret = line;
		return 0;
	}
	return -ENOENT;
}

/*
 * Returns the part of @own below @root, empty or beginning with a slash; data is NULL if it lies
 * elsewhere.
 */
static struct text path_below(struct text own, const char *root)
{
	struct text prefix = text_from(root);

	if (text_equal(prefix, TEXT_LITERAL("/")))
		prefix.len = 0;
	if (!begins_with(own, prefix) || (own.len > prefix.len && own.data[prefix.len] != '/'))
		return (struct text){NULL, 0};
	return (struct text){own.data + prefix.len, own.len - prefix.len};
}

int cgroup_directory(struct text mountinfo, struct text own, char *ret_path, size_t size)
{
	struct mountinfo_entry mount;

	/* The cgroup is outside of our cgroup namespace, so no mount here shows it. */
	if (begins_with(own, TEXT_LITERAL("/../")) || text_equal(own, TEXT_LITERAL("/..")))
		return -ENOENT;
	while (mountinfo_next(&mountinfo, &mount)) {
		struct text rest = path_below(own, mount.root);

		if (!mount.root[0] || !mount.point[0] || !rest.data ||
			!text_equal(mount.type, TEXT_LITERAL("cgroup2")))
			continue;
		return (size_t)snprintf(ret_path, size, "%s%.*s", mount.point, (int)rest.len,
			       rest.data) < size
			       ? 0
			       : -ENAMETOOLONG;
	}
	return -ENOENT;
}

/* Opens the directory of the cgroup that this process is in. Returns 0 or -errno. */
static int open_own(int *ret_fd)
{
	struct text group = {NULL, 0}, mounts = {NULL, 0}, own;
	char path[PATH_MAX];
	int fd, r = mountinfo_read("/proc/self/cgroup", &group);

	if (r == 0)
		r = cgroup_own_path(group, &own);
	if (r == 0)
		r = mountinfo_read("/proc/self/mountinfo", &mounts);
	if (r == 0)
		r = cgroup_directory(mounts, own, path, sizeof(path));
	free((char *)group.data);
	free((char *)mounts.data);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

int cgroup_open_whole(const struct cgroup *cgroup)
{
	int fd = -1, r;

	if (cgroup->root < 0) {
		r = open_own(&fd);
		return r < 0 ? r : fd;
	}
	fd = fcntl(cgroup->whole, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

/*
 * Calls @look for this process's cgroup and the visible ones above it, until it returns false. The
 * directory above the mount point has no such file.
 */
static void each_above(bool (*look)(int group, void *context), void *context)
{
	_cleanup_close_ int group = -1;

	if (open_own(&group) < 0)
		return;
	while (faccessat(group, "cgroup.procs", F_OK, 0) == 0 && look(group, context)) {
		int parent = openat(group, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (parent < 0)
			break;
		close(group);
		group = parent;
	}
}

/* The root of the tree has no such file, nor has a group without the controller. */
static bool look_for_whole(int group, void *context)
{
	bool *whole = context;
	uint64_t number;

	*whole = cgroup_read_number(group, "memory.oom.group", &number) == 0 && number;
	return !*whole;
}

bool cgroup_is_killed_whole(void)
{
	bool whole = false;

	each_above(look_for_whole, &whole);
	return whole;
}

/* "max" is no number, and no bound. */
static bool look_for_tasks(int group, void *context)
{
	uint64_t *least = context, number;

	if (cgroup_read_number(group, "pids.max", &number) == 0 && number < *least)
		*least = number;
	return true;
}

uint64_t cgroup_tasks_max(void)
{
	uint64_t least = UINT64_MAX;

	each_above(look_for_tasks, &least);
	return least;
}

/* The groups below @group that exist; one that was removed gives its number back. */
static uint64_t count_below(int group)
{
	char buffer[CGROUP_FILE_BYTES];
	struct text text;
	uint64_t count;

	return cgroup_read(group, "cgroup.stat", buffer, &text) == 0 &&
			       cgroup_key(text, "nr_descendants", &count) == 0
		       ? count
		       : 0;
}

/* Ends with the number of the topmost one. */
static bool look_for_others(int group, void *context)
{
	*(uint64_t *)context = count_below(group);
	return true;
}

uint64_t cgroup_memory_numbers(const struct cgroup *cgroup)
{
	uint64_t all = 0, own;

	if (!(cgroup->controllers & CGROUP_MEMORY))
		return UINT64_MAX;
	own = count_below(cgroup->whole);
	each_above(look_for_others, &all);
	/* Those of a former generation, if there is one, end before long. */
	all = all > own ? all - own : 0;
	return all < MEMORY_NUMBERS ? MEMORY_NUMBERS - all : 0;
}

/*
 * A delegated group belongs to the delegate: systemd.resource-control(5) gives these files to the
 * unit's user.
 */
static bool is_ours(int group)
{
	static const char *const names[] = {".", "cgroup.procs", "cgroup.subtree_control"};
	struct stat stat_buf;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (fstatat(group, names[i], &stat_buf, AT_SYMLINK_NOFOLLOW) < 0 ||
			stat_buf.st_uid != geteuid() || faccessat(group, names[i], W_OK, 0) < 0)
			return false;
	return true;
}

/* Whether @group has no processes of its own, or only the process @only if that is not 0. */
static bool holds_only(int group, pid_t only)
{
	char buffer[CGROUP_FILE_BYTES], expected[32];
	struct text text;

	snprintf(expected, sizeof(expected), "%d\n", (int)only);
	return cgroup_read(group, "cgroup.procs", buffer, &text) == 0 &&
	       text_equal(text, only ? text_from(expected) : TEXT_LITERAL(""));
}

static bool is_at(int group, int parent, const char *name)
{
	struct stat a, b;

	return fstat(group, &a) == 0 && fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/*
 * If cloisterd was started in the supervisor/ of a delegated group (by a service manager with
 * DelegateSubgroup=, or again after a crash), that group is the root.
 */
static int find_root(int *ret_root, const char **ret_missing)
{
	_cleanup_close_ int own = -1, parent = -1;
	int r = open_own(&own);

	if (r < 0) {
		*ret_missing = "cgroup v2 is not mounted here";
		return r;
	}
	*ret_missing = "the cgroup that cloisterd was started in is not delegated to its user";
	if (!is_ours(own))
		return -EPERM;
	*ret_missing = "the cgroup that cloisterd was started in contains other processes as well";
	if (!holds_only(own, getpid()))
		return -EBUSY;
	parent = openat(own, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent >= 0 && is_at(own, parent, SUPERVISOR) && is_ours(parent) &&
		holds_only(parent, 0))
		*ret_root = TAKE_FD(parent);
	else
		*ret_root = TAKE_FD(own);
	return 0;
}

static int move_to_supervisor(int root)
{
	_cleanup_close_ int group = -1;

	if (mkdirat(root, SUPERVISOR, 0755) < 0 && errno != EEXIST)
		return -errno;
	group = openat(root, SUPERVISOR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (group < 0)
		return -errno;
	return cgroup_write(group, "cgroup.procs", "0");
}

/* Sets cloisterd's own weights, and finds out whether the kernel has io.weight. */
static void set_supervisor_weight(struct cgroup *cgroup)
{
	_cleanup_close_ int group =
		openat(cgroup->root, SUPERVISOR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)cgroup_write_number(group, "cpu.weight", SUPERVISOR_WEIGHT);
	cgroup->io_weight = cgroup_write_number(group, "io.weight", SUPERVISOR_WEIGHT) == 0;
}

/* Moves into @root, whose groups are made here, and finds out what it can limit. */
static void settle_in_cgroup(struct cgroup *cgroup)
{
	const unsigned wanted = CGROUP_MEMORY | CGROUP_PIDS | CGROUP_CPU | CGROUP_IO;

	cgroup->missing = NULL;
	if (move_to_supervisor(cgroup->root) < 0) {
		cgroup->missing = "cloisterd could not move into a cgroup of its own";
		log_info("no cgroups: %s", cgroup->missing);
		cgroup_done(cgroup);
		return;
	}
	cgroup->controllers = cgroup_enable_below(cgroup->root, wanted);
	set_supervisor_weight(cgroup);
	log_info("cgroups: memory %s, processes %s, cpu %s, io %s",
		cgroup_enforcer_name(cgroup_enforcer_of_memory(cgroup)),
		cgroup_enforcer_name(cgroup_enforcer_of_processes(cgroup)),
		cgroup_enforcer_name(cgroup_enforcer_of_cpu(cgroup)),
		cgroup_enforcer_name(cgroup_enforcer_of_io(cgroup)));
}

static bool is_generation(const struct dirent *entry)
{
	const char *number = entry->d_name + strlen(GENERATION);

	return entry->d_type == DT_DIR &&
	       strncmp(entry->d_name, GENERATION, strlen(GENERATION)) == 0 && number[0] != '\0' &&
	       number[strspn(number, "0123456789")] == '\0';
}

/* Whether a process is in @name or below it. If that cannot be read, one may be. */
static bool is_populated(int parent, const char *name)
{
	_cleanup_close_ int group = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char buffer[CGROUP_FILE_BYTES];
	struct text text;
	uint64_t populated;

	return group < 0 || cgroup_read(group, "cgroup.events", buffer, &text) < 0 ||
	       cgroup_key(text, "populated", &populated) < 0 || populated;
}

static bool is_workspace(const struct dirent *entry)
{
	return entry->d_type == DT_DIR && strncmp(entry->d_name, "ws-", 3) == 0;
}

/*
 * Removes the groups of generations that have ended; with @all also those of living ones. Those of
 * the first one are beside the others': it has ended if its cloisterd is not there any more. Where
 * it is alone, the spawner removes them.
 */
static void clear_generations(int whole, bool all)
{
	const bool first_has_ended = !all && !is_populated(whole, SUPERVISOR);
	DIR *directory = directory_read(whole, ".");
	uint64_t deadline = monotonic_ms() + LEFT_OVER_WAIT_MS;
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if ((is_generation(entry) && (all || !is_populated(whole, entry->d_name))) ||
			(is_workspace(entry) && first_has_ended))
			(void)cgroup_remove(whole, entry->d_name, deadline);
	if (directory)
		closedir(directory);
}

void cgroup_take(struct cgroup *ret)
{
	*ret = (struct cgroup){.root = -1, .whole = -1};
	if (find_root(&ret->root, &ret->missing) < 0) {
		log_info("no cgroups: %s", ret->missing);
		return;
	}
	ret->whole = ret->root;
	settle_in_cgroup(ret);
}

void cgroup_clear_generations(const struct cgroup *cgroup)
{
	if (cgroup->root >= 0)
		clear_generations(cgroup->whole, true);
}

void cgroup_take_beside(int whole, struct cgroup *ret)
{
	char name[32];

	*ret = (struct cgroup){.root = -1, .whole = whole};
	ret->missing = "the generation of cloisterd before this one has none";
	if (whole < 0) {
		log_info("no cgroups: %s", ret->missing);
		return;
	}
	clear_generations(whole, false);
	snprintf(name, sizeof(name), GENERATION "%d", (int)getpid());
	if (mkdirat(whole, name, 0755) == 0 || errno == EEXIST)
		ret->root = openat(whole, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	settle_in_cgroup(ret);
}

void cgroup_done(struct cgroup *cgroup)
{
	if (cgroup->whole != cgroup->root)
		close_fd(&cgroup->whole);
	close_fd(&cgroup->root);
	cgroup->whole = -1;
}

const char *cgroup_enforcer_name(enum cgroup_enforcer enforcer)
{
	static const char *const names[CGROUP_ENFORCERS] = {
		[CGROUP_ENFORCER_NONE] = "none",
		[CGROUP_ENFORCER_RLIMIT] = "rlimit",
		[CGROUP_ENFORCER_CGROUP] = "cgroup",
	};

	return names[enforcer];
}

enum cgroup_enforcer cgroup_enforcer_of_memory(const struct cgroup *cgroup)
{
	return cgroup->controllers & CGROUP_MEMORY ? CGROUP_ENFORCER_CGROUP : CGROUP_ENFORCER_NONE;
}

enum cgroup_enforcer cgroup_enforcer_of_processes(const struct cgroup *cgroup)
{
	/* Without the controller, RLIMIT_NPROC limits all commands of a workspace together. */
	return cgroup->controllers & CGROUP_PIDS ? CGROUP_ENFORCER_CGROUP : CGROUP_ENFORCER_RLIMIT;
}

enum cgroup_enforcer cgroup_enforcer_of_cpu(const struct cgroup *cgroup)
{
	return cgroup->controllers & CGROUP_CPU ? CGROUP_ENFORCER_CGROUP : CGROUP_ENFORCER_NONE;
}

enum cgroup_enforcer cgroup_enforcer_of_io(const struct cgroup *cgroup)
{
	return cgroup->controllers & CGROUP_IO && cgroup->io_weight ? CGROUP_ENFORCER_CGROUP
								    : CGROUP_ENFORCER_NONE;
}
