// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-spawner. Runs in its own user and mount namespace with the capabilities of both; the
 * children made here run cloister's own code until their exec. Trusts cloisterd for which
 * directory, and checks that what it opens is that one. user_namespaces(7), pid_namespaces(7),
 * clone(2), setns(2).
 */
#include "worker/spawner/cell.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"
#include "common/fixed_fds.h"
#include "common/program.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/spare.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/nsfs.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define AGENT_ID      1000 /* uid and gid of everything inside */
#define REPORT_FD_MIN 32   /* above the numbers of a program's own descriptors */
#define WORKER_NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
#define SHARED_NAMESPACES (CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)

static const cap_value_t worker_capabilities[] = {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SETPCAP,
	CAP_SYS_RESOURCE,
	/* Only one that is made ahead: it becomes its user later. */
	CAP_SETUID, CAP_SETGID};
static const cap_value_t files_capabilities[] = {
	CAP_SYS_ADMIN, CAP_SETPCAP, CAP_SETUID, CAP_SETGID};

#define SPARE_CAPABILITIES 2 /* the last of them */

/* What a child under construction tells the spawner, over a pipe that its exec closes. */
struct child_report {
	char what; /* REPORT_READY, REPORT_PID or REPORT_FAILED */
	int value; /* pid or errno */
};

enum { REPORT_READY = 'r', REPORT_PID = 'p', REPORT_FAILED = 'f' };

/* A cell while it is made. Pids are the spawner's children; cleaned up unless the cell is handed
 * over. */
struct cell {
	const struct cell_maker *maker;
	uint64_t number;
	const struct spawner_open *request;
	const int *fds;
	const int *worker_fds, *files_fds; /* of them: the channels */
	char visible[PATH_MAX];
	int root;     /* the checked directory, in this mount namespace */
	int trees[2]; /* detached clones for worker and files */
	int pidfds[SPAWNER_OPENED_FDS];
	pid_t pids[SPAWNER_OPENED_FDS];
	struct cell_cgroup *cgroup; /* NULL: none is delegated */
	bool spare;                 /* made ahead: trees are the sockets it waits at */
	int sockets[2];             /* their other ends */
	struct cell_spare *waiting; /* that is assigned */
	struct cell_id id;          /* what 1000 inside is mapped to */
	struct live_cell *live;
	const char *reason; /* of a refusal */
};

/* @cgroup: to begin in; -1: the caller's. */
static long clone_process(uint64_t flags, int *pidfd, int exit_signal, int cgroup)
{
	struct clone_args args = {
		.flags = flags | (pidfd ? CLONE_PIDFD : 0) | (cgroup >= 0 ? CLONE_INTO_CGROUP : 0),
		.pidfd = (uint64_t)(uintptr_t)pidfd,
		.exit_signal = (uint64_t)exit_signal,
		.cgroup = cgroup >= 0 ? (uint64_t)cgroup : 0,
	};

	return syscall(SYS_clone3, &args, sizeof(args));
}

static void send_report(int fd, char what, int value)
{
	struct child_report report = {.what = what, .value = value};

	(void)!write(fd, &report, sizeof(report));
}

/* 1 and a report; 0 when the child's exec (or death) has closed the pipe. */
static int receive_report(int fd, struct child_report *ret)
{
	ssize_t n;

	do
		n = read(fd, ret, sizeof(*ret));
	while (n < 0 && errno == EINTR);
	return n == sizeof(*ret) ? 1 : 0;
}

_Static_assert((int)SPAWNER_OPEN_ROOT == (int)SPAWNER_OPEN_FILES_ROOT &&
		       (int)SPAWNER_OPEN_ROOT == (int)SPAWNER_ASSIGN_ROOT,
	"open_root takes all");
_Static_assert(
	(int)SPAWNER_OPEN_FILES_WORKER == (int)SPAWNER_ASSIGN_WORKER, "find_worker takes both");

/* The directory that cloisterd checked, opened anew in this mount namespace by the path that it
 * has, links refused. */
static int open_root(struct cell *cell)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS,
	};
	char link[64];
	struct stat checked, opened;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", cell->fds[SPAWNER_OPEN_ROOT]);
	n = readlink(link, cell->visible, sizeof(cell->visible) - 1);
	if (n < 0)
		return -errno;
	cell->visible[n] = '\0';
	if (cell->visible[0] != '/')
		return -EXDEV;
	cell->root = (int)syscall(SYS_openat2, AT_FDCWD, cell->visible, &how, sizeof(how));
	if (cell->root < 0)
		return -errno;
	if (fstat(cell->fds[SPAWNER_OPEN_ROOT], &checked) < 0 || fstat(cell->root, &opened) < 0)
		return -errno;
	return checked.st_dev == opened.st_dev && checked.st_ino == opened.st_ino ? 0 : -ESTALE;
}

static int check_channel(int down, int up)
{
	struct stat down_stat, up_stat;

	if (fstat(down, &down_stat) < 0 || fstat(up, &up_stat) < 0)
		return -errno;
	return S_ISSOCK(down_stat.st_mode) && S_ISFIFO(up_stat.st_mode) ? 0 : -EBADF;
}

/* Descriptors that go to the workspace's processes are the channels that they should be. */
static int check_files_channel(struct cell *cell)
{
	return check_channel(cell->files_fds[0], cell->files_fds[1]);
}

static int check_channels(struct cell *cell)
{
	int r = check_channel(cell->worker_fds[0], cell->worker_fds[1]);

	return r < 0 ? r : check_files_channel(cell);
}

struct same {
	const struct stat *as;
};

static bool is_same_directory(const void *context, const struct stat *directory)
{
	const struct same *same = context;

	return same->as->st_dev == directory->st_dev && same->as->st_ino == directory->st_ino;
}

/* Neither a part of where managed workspaces lie, but as one of them, nor what contains it. */
static bool is_apart_from_state(const struct cell *cell, const struct stat *root)
{
	int managed = cell->maker->ids->managed;
	struct stat state;

	if (managed < 0)
		return true;
	return fstat(managed, &state) == 0 &&
	       !directory_parents_any(cell->root, is_same_directory, &(struct same){&state}) &&
	       !directory_parents_any(managed, is_same_directory, &(struct same){root});
}

/* A command may have taken its owner's own permissions from a managed workspace's directory. */
static int open_up(const struct cell *cell, const struct stat *root)
{
	char link[64];

	if ((root->st_mode & S_IRWXU) == S_IRWXU)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", cell->root);
	return chmod(link, (root->st_mode & 07777) | S_IRWXU) < 0 ? -errno : 0;
}

/* May it be at all? */
static int check_policy(struct cell *cell)
{
	const struct cell_maker *maker = cell->maker;
	bool is_managed = cell->request->kind == WORKSPACE_MANAGED;
	char tenant[NAME_MAX + 1];
	struct stat root;

	if (fstat(cell->root, &root) < 0)
		return -errno;
	if (maker->policy && (is_managed ? !cell_ids_managed_of(maker->ids, cell->root, tenant)
					 : !is_apart_from_state(cell, &root))) {
		cell->reason = is_managed ? "it is not where managed workspaces lie"
					  : "the directory is part of cloister's own state";
		return -SPAWNER_REFUSAL;
	}
	return policy_check(maker->policy, cell->root, is_managed ? tenant : NULL, cell->request,
		&cell->reason);
}

static int choose_id(struct cell *cell)
{
	struct cell_ids *ids = cell->maker->ids;
	bool is_managed = cell->request->kind == WORKSPACE_MANAGED;
	struct stat root;
	int r;

	if (fstat(cell->root, &root) < 0)
		return -errno;
	r = cell_ids_choose(ids, cell->root, &root, is_managed, &cell->id, &cell->reason);
	if (r == 0)
		r = cell_ids_reserve(ids, cell->id, &root, &cell->live);
	return r == 0 && is_managed ? open_up(cell, &root) : r;
}

/* A files process goes to the directory that its worker has, and no other. */
static int check_same_root(struct cell *cell)
{
	struct stat root;

	if (fstat(cell->root, &root) < 0)
		return -errno;
	cell->live = cell_ids_find(cell->maker->ids, cell->pids[SPAWNER_OPENED_WORKER], &root);
	cell->reason = "the directory is not that of the workspace's worker";
	return cell->live ? 0 : -SPAWNER_REFUSAL;
}

static int clone_trees(struct cell *cell)
{
	for (int i = 0; i < 2; i++) {
		int r = mount_clone(cell->root, "", 0, &cell->trees[i]);

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_cgroup(struct cell *cell)
{
	return cell_cgroup_make(
		cell->maker->cgroups, cell->number, &cell->request->limits, &cell->cgroup);
}

static int write_map(pid_t pid, const char *name, unsigned outside)
{
	_cleanup_close_ int fd = -1;
	char path[64], map[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = snprintf(map, sizeof(map), "%d %u 1\n", AGENT_ID, outside);
	return write(fd, map, (size_t)n) == n ? 0 : -errno;
}

static int become_agent(const struct cell *cell)
{
	/* In user mode the caller's supplementary groups stay: setgroups(2) is denied there. */
	if (cell->maker->ids->count > 0 && setgroups(0, NULL) < 0)
		return -errno;
	if (setresgid(AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
		setresuid(AGENT_ID, AGENT_ID, AGENT_ID) < 0)
		return -errno;
	return confine_die_with_parent();
}

/* The last steps of both children: ids, capabilities for the program's set-up, descriptors, exec.
 */
static _Noreturn void become_program(struct cell *cell, int report, int program, char *name,
	const int *fds, int n_fds, const cap_value_t *capabilities, int n_capabilities)
{
	const struct workspace_limits *limits = &cell->request->limits;
	bool worker = program == cell->maker->worker_program;
	const char *kind = cell->spare ? SPARE_KIND : workspace_kind_name(cell->request->kind);
	char tmp[24], file_size[24];
	char *const argv[] = {
		name, (char *)kind, cell->visible, worker ? tmp : NULL, file_size, NULL};
	int r = cell->spare ? confine_die_with_parent() : become_agent(cell);

	snprintf(tmp, sizeof(tmp), "%llu", (unsigned long long)limits->tmp_bytes);
	snprintf(file_size, sizeof(file_size), "%llu", (unsigned long long)limits->file_size_bytes);

	if (r == 0)
		r = confine_pass_on_capabilities(
			capabilities, n_capabilities - (cell->spare ? 0 : SPARE_CAPABILITIES));
	if (r == 0)
		r = program_execute(program, argv, fds, n_fds);
	send_report(report, REPORT_FAILED, -r);
	_exit(1);
}

#ifdef __SANITIZE_ADDRESS__
#define CHILD_STDERR 2 /* a sanitizer's report must reach the log */
#else
#define CHILD_STDERR (-1)
#endif

static _Noreturn void worker_child(struct cell *cell, int report, int go)
{
	int fds[] = {
		-1, -1, CHILD_STDERR, cell->worker_fds[0], cell->worker_fds[1], cell->trees[0], -1};
	int n_fds = cell->cgroup ? FD_WORKER_CGROUP + 1 : FD_WORKER_CGROUP;
	char byte;
	int r = 0;

	/* Where it is becomes the root of what it can see of cgroups: ws-N, if there is one. */
	if (unshare(CLONE_NEWCGROUP) < 0)
		r = -errno;
	/* Until it is dumpable its maps cannot be written, and until they are it is nobody. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	send_report(report, r < 0 ? REPORT_FAILED : REPORT_READY, -r);
	if (r < 0 || read(go, &byte, 1) != 1)
		_exit(1);
	/* Not a descriptor of the host's mount: from that, ".." leads to other workspaces'. */
	if (cell->cgroup)
		r = mount_new_cgroup(&fds[FD_WORKER_CGROUP]);
	if (r < 0) {
		send_report(report, REPORT_FAILED, -r);
		_exit(1);
	}
	become_program(cell, report, cell->maker->worker_program, (char *)"cloister-worker", fds,
		n_fds, worker_capabilities, ARRAY_SIZE(worker_capabilities));
}

/* Joins the worker's namespaces, then leaves a sibling of the worker in mount and pid namespaces of
 * its own. */
static _Noreturn void files_child(struct cell *cell, int report)
{
	const int fds[] = {
		-1, -1, CHILD_STDERR, cell->files_fds[0], cell->files_fds[1], cell->trees[1]};
	long pid;

	if (setns(cell->pidfds[SPAWNER_OPENED_WORKER], SHARED_NAMESPACES) < 0) {
		send_report(report, REPORT_FAILED, errno);
		_exit(1);
	}
	pid = clone_process(CLONE_NEWNS | CLONE_NEWPID | CLONE_PARENT, NULL, 0, -1);
	if (pid != 0) {
		send_report(
			report, pid < 0 ? REPORT_FAILED : REPORT_PID, pid < 0 ? errno : (int)pid);
		_exit(0);
	}
	become_program(cell, report, cell->maker->files_program, (char *)"cloister-files", fds,
		ARRAY_SIZE(fds), files_capabilities, ARRAY_SIZE(files_capabilities));
}

/* The number of a child of ours that lives; it is not reaped before we do it, so it stays its own.
 */
static int living_child(int pidfd, pid_t *ret)
{
	_cleanup_close_ int info = -1;
	siginfo_t ended = {0};
	char path[64], text[512];
	const char *line;
	ssize_t n;

	if (waitid(P_PIDFD, (id_t)pidfd, &ended, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -errno;
	if (ended.si_pid != 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	n = info < 0 ? -1 : read(info, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	line = strstr(text, "\nPid:\t");
	*ret = line ? (pid_t)strtol(line + strlen("\nPid:\t"), NULL, 10) : 0;
	return *ret > 0 ? 0 : -ESRCH;
}

static int find_worker(struct cell *cell)
{
	cell->pidfds[SPAWNER_OPENED_WORKER] = cell->fds[SPAWNER_OPEN_FILES_WORKER];
	return living_child(
		cell->pidfds[SPAWNER_OPENED_WORKER], &cell->pids[SPAWNER_OPENED_WORKER]);
}

/* Has it stayed in the user namespace that was made for it, or does it lead into one of its own? */
static int check_namespace(struct cell *cell)
{
	_cleanup_close_ int its = -1, parent = -1;
	struct stat its_parent, ours;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)cell->pids[SPAWNER_OPENED_WORKER]);
	its = open(path, O_RDONLY | O_CLOEXEC);
	if (its < 0)
		return -errno;
	parent = ioctl(its, NS_GET_PARENT);
	if (parent < 0 || fstat(parent, &its_parent) < 0 || stat("/proc/self/ns/user", &ours) < 0)
		return -errno;
	return its_parent.st_dev == ours.st_dev && its_parent.st_ino == ours.st_ino ? 0 : -EPERM;
}

static int find_cgroup(struct cell *cell)
{
	return cell_cgroup_find(
		cell->maker->cgroups, cell->pids[SPAWNER_OPENED_WORKER], &cell->cgroup);
}

/* A pipe for reports whose write end lies above every descriptor that the child's program gets. */
static int report_pipe(int *ret_read, int *ret_write)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	*ret_write = fcntl(ends[1], F_DUPFD_CLOEXEC, REPORT_FD_MIN);
	close(ends[1]);
	if (*ret_write < 0) {
		close(ends[0]);
		return -errno;
	}
	*ret_read = ends[0];
	return 0;
}

static int write_maps(const struct cell *cell, pid_t pid)
{
	int r = write_map(pid, "uid_map", cell->id.uid);

	return r < 0 ? r : write_map(pid, "gid_map", cell->id.gid);
}

/* Lets the worker's child, which waits, become uid 1000 of its namespace. */
static int map_and_release(const struct cell *cell, pid_t pid, int go)
{
	int r = cell->spare ? 0 : write_maps(cell, pid);

	if (r < 0)
		return r;
	return write(go, "g", 1) == 1 ? 0 : -errno;
}

static int start_worker(struct cell *cell)
{
	_cleanup_close_ int report = -1, report_write = -1, go = -1, go_write = -1;
	struct child_report message;
	int pipe_fds[2], r;
	long pid;

	r = report_pipe(&report, &report_write);
	if (r < 0)
		return r;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	go = pipe_fds[0];
	go_write = pipe_fds[1];
	pid = clone_process(WORKER_NAMESPACES, &cell->pidfds[SPAWNER_OPENED_WORKER], SIGCHLD,
		cell_cgroup_fd(cell->cgroup));
	if (pid < 0)
		return -errno;
	if (pid == 0)
		worker_child(cell, report_write, go);
	cell->pids[SPAWNER_OPENED_WORKER] = (pid_t)pid;
	close_fd(&report_write);
	if (receive_report(report, &message) != 1)
		return -EIO;
	if (message.what == REPORT_FAILED)
		return -message.value;
	r = cell_cgroup_settle(cell->maker->cgroups, cell->cgroup, (pid_t)pid, &cell->id);
	if (r == 0)
		r = map_and_release(cell, (pid_t)pid, go_write);
	if (r == 0 && receive_report(report, &message) == 1)
		r = -message.value;
	return r;
}

static int start_files(struct cell *cell)
{
	_cleanup_close_ int report = -1, report_write = -1;
	struct child_report message;
	int r, result = -EIO;
	long pid;

	r = report_pipe(&report, &report_write);
	if (r < 0)
		return r;
	pid = clone_process(0, NULL, SIGCHLD, cell_cgroup_cell_fd(cell->cgroup));
	if (pid < 0)
		return -errno;
	if (pid == 0)
		files_child(cell, report_write);
	close_fd(&report_write);
	while (receive_report(report, &message) == 1) {
		if (message.what == REPORT_FAILED) {
			result = -message.value;
			break;
		}
		/* It is our child and not reaped before we do it: the number is still its own. */
		cell->pids[SPAWNER_OPENED_FILES] = message.value;
		cell->pidfds[SPAWNER_OPENED_FILES] = pidfd_open(message.value, 0);
		result = cell->pidfds[SPAWNER_OPENED_FILES] < 0 ? -errno : 0;
	}
	while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
	return result;
}

static void cell_abandon(struct cell *cell)
{
	for (int i = 0; i < SPAWNER_OPENED_FDS; i++) {
		if (cell->pidfds[i] < 0)
			continue;
		pidfd_send_signal(cell->pidfds[i], SIGKILL, NULL, 0);
		close_fd(&cell->pidfds[i]);
	}
}

struct cell_step {
	const char *name;
	int (*act)(struct cell *cell);
};

static int take_steps(
	struct cell *cell, const struct cell_step *steps, size_t n_steps, const char **ret_step)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_steps; i++) {
		r = steps[i].act(cell);
		if (r < 0)
			*ret_step = r == -SPAWNER_REFUSAL ? cell->reason : steps[i].name;
	}
	close_fd(&cell->root);
	close_fd(&cell->trees[0]);
	close_fd(&cell->trees[1]);
	return r;
}

int cell_make(const struct cell_maker *maker, uint64_t number, const struct spawner_open *request,
	const int *fds, int ret_pidfds[SPAWNER_OPENED_FDS], const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"take its channels", check_channels},
		{"open the workspace's root", open_root},
		{"find out whether the workspace may be", check_policy},
		{"choose the workspace's id", choose_id},
		{"clone the workspace's mounts", clone_trees},
		{"make the workspace's cgroup", make_cgroup},
		{"start cloister-worker", start_worker},
		{"start cloister-files", start_files},
	};
	struct cell cell = {.maker = maker,
		.number = number,
		.request = request,
		.fds = fds,
		.worker_fds = &fds[SPAWNER_OPEN_WORKER_DOWN],
		.files_fds = &fds[SPAWNER_OPEN_FILES_DOWN],
		.root = -1,
		.trees = {-1, -1},
		.pidfds = {-1, -1}};
	int r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);

	cell_cgroup_holds(cell.cgroup, cell.pids, maker->cgroups);
	cell_ids_holds(cell.live, cell.pids);
	if (r < 0) {
		cell_abandon(&cell);
		return r;
	}
	memcpy(ret_pidfds, cell.pidfds, sizeof(cell.pidfds));
	return 0;
}

int cell_make_files(const struct cell_maker *maker, const struct spawner_open *request,
	const int *fds, int *ret_pidfd, const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"take its channels", check_files_channel},
		{"find the workspace's worker", find_worker},
		{"check the worker's user namespace", check_namespace},
		{"open the workspace's root", open_root},
		{"find out whether it is the worker's", check_same_root},
		{"find out whether the workspace may be", check_policy},
		{"clone the workspace's mounts", clone_trees},
		{"find the workspace's cgroup", find_cgroup},
		{"start cloister-files", start_files},
	};
	struct cell cell = {.maker = maker,
		.request = request,
		.fds = fds,
		.files_fds = &fds[SPAWNER_OPEN_FILES_DOWN_AGAIN],
		.root = -1,
		.trees = {-1, -1},
		.pidfds = {-1, -1}};
	int r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);

	cell_cgroup_holds_files(cell.cgroup, cell.pids[SPAWNER_OPENED_FILES], maker->cgroups);
	if (cell.pids[SPAWNER_OPENED_FILES] > 0)
		cell_ids_holds(cell.live, cell.pids);
	cell.pidfds[SPAWNER_OPENED_WORKER] = -1; /* borrowed, and it goes on */
	if (r < 0) {
		cell_abandon(&cell);
		return r;
	}
	*ret_pidfd = cell.pidfds[SPAWNER_OPENED_FILES];
	return 0;
}

/* Where the two will wait; each has its socket in the place of its mount. */
static int make_sockets(struct cell *cell)
{
	for (int i = 0; i < 2; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			return -errno;
		cell->sockets[i] = pair[0];
		cell->trees[i] = pair[1];
	}
	return 0;
}

static int remember(struct cell *cell)
{
	return cell_spares_add(cell->maker->spares, cell->pids, cell->sockets);
}

int cell_prepare(const struct cell_maker *maker, uint64_t number,
	const struct spawner_open *request, const int *fds, int ret_pidfds[SPAWNER_OPENED_FDS],
	const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"take its channels", check_channels},
		{"make sockets", make_sockets},
		{"make a cgroup", make_cgroup},
		{"start cloister-worker", start_worker},
		{"start cloister-files", start_files},
		{"remember the cell", remember},
	};
	struct cell cell = {.maker = maker,
		.number = number,
		.request = request,
		.fds = fds,
		.worker_fds = &fds[SPAWNER_PREPARE_WORKER_DOWN],
		.files_fds = &fds[SPAWNER_PREPARE_FILES_DOWN],
		.root = -1,
		.trees = {-1, -1},
		.pidfds = {-1, -1},
		.id = maker->ids->own,
		.spare = true,
		.sockets = {-1, -1}};
	int r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);

	cell_cgroup_holds(cell.cgroup, cell.pids, maker->cgroups);
	close_fd(&cell.sockets[0]);
	close_fd(&cell.sockets[1]);
	if (r < 0) {
		cell_abandon(&cell);
		return r;
	}
	memcpy(ret_pidfds, cell.pidfds, sizeof(cell.pidfds));
	return 0;
}

/* One that waits and no other, and once: nothing of a cell that a workspace has is touched. */
static int find_waiting(struct cell *cell)
{
	int r = find_worker(cell);

	if (r < 0)
		return r;
	cell->waiting = cell_spares_take(cell->maker->spares, cell->pids[SPAWNER_OPENED_WORKER]);
	if (!cell->waiting)
		return -ESRCH;
	cell->pids[SPAWNER_OPENED_FILES] = cell->waiting->pids[SPAWNER_OPENED_FILES];
	return 0;
}

static int limit_cgroup(struct cell *cell)
{
	return cell_cgroup_limit(cell->maker->cgroups, cell->pids[SPAWNER_OPENED_WORKER],
		&cell->request->limits, &cell->id);
}

static int map_ids(struct cell *cell)
{
	return write_maps(cell, cell->pids[SPAWNER_OPENED_WORKER]);
}

static int tell_spare(struct cell *cell)
{
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++)
		r = spare_assign(
			cell->waiting->sockets[i], cell->request, cell->visible, cell->trees[i]);
	return r;
}

int cell_assign(const struct cell_maker *maker, const struct spawner_open *request, const int *fds,
	const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"find the waiting cell", find_waiting},
		{"open the workspace's root", open_root},
		{"clone the workspace's mounts", clone_trees},
		{"find out whether the workspace may be", check_policy},
		{"choose the workspace's id", choose_id},
		{"limit the workspace's cgroup", limit_cgroup},
		{"map the workspace's ids", map_ids},
		{"tell the waiting cell", tell_spare},
	};
	struct cell cell = {.maker = maker,
		.request = request,
		.fds = fds,
		.root = -1,
		.trees = {-1, -1},
		.pidfds = {-1, -1}};
	int r;

	r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);
	cell_spare_free(cell.waiting);
	/* Also where it failed: what has been mapped lives until cloisterd kills it. */
	cell_ids_holds(cell.live, cell.pids);
	return r;
}
