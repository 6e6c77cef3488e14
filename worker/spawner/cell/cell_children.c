// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner: starts the two processes of a cell, from their clone to their exec. First
 * the reports between children and spawner, then the children's own steps, then the spawner's. The
 * children run cloister's own code and trust what the spawner has checked. user_namespaces(7),
 * pid_namespaces(7), clone(2), setns(2).
 */
#include "worker/spawner/cell/cell_children.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/program.h"
#include "common/wire/fixed_fds.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/spawner/cell/cell.h"
#include "worker/spawner/cell/cell_cgroup.h"
#include "worker/spawner/cell/cell_private.h"
#include "worker/spawner/cell/cell_starts.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/*
 * The user namespace that a cell's commands enter with root_inside = yes. It lies below the cell's,
 * owns no other namespace, and maps the workspace's one id to 0. Worker, files process and command
 * inits stay in the cell's own. It is made in the child that is about to become a worker, before
 * any program is executed in the cell. The helper that makes the namespace runs cloister's own code
 * and ends; the descriptor keeps the namespace. user_namespaces(7).
 */

static int write_own(const char *path, const char *text)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = (ssize_t)strlen(text);

	if (fd < 0 || write(fd, text, (size_t)len) != len)
		return -errno;
	return 0;
}

/* Runs in the helper, in its new namespace. @place is a descriptor that both have. */
static int map_and_show(unsigned id, int place)
{
	_cleanup_close_ int own = -1;
	char map[32];
	int r;

	/* The change of user has cleared this, and /proc/self belongs to root without it. */
	r = prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 ? -errno : 0;
	snprintf(map, sizeof(map), "0 %u 1\n", id);
	/* Without CAP_SETGID in the namespace above, gid_map can be written only after this. */
	if (r == 0)
		r = write_own("/proc/self/setgroups", "deny");
	if (r == 0)
		r = write_own("/proc/self/uid_map", map);
	if (r == 0)
		r = write_own("/proc/self/gid_map", map);
	if (r < 0)
		return r;
	own = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
	return own < 0 || dup3(own, place, O_CLOEXEC) < 0 ? -errno : 0;
}

/*
 * Makes such a namespace below the caller's. The caller has become @id, the only user of its
 * namespace, and has one thread. Returns 0 and the namespace's descriptor, or -errno.
 */
static int root_inside_make(unsigned id, int *ret_fd)
{
	_cleanup_close_ int place = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int status;
	long pid;

	if (place < 0)
		return -errno;
	pid = syscall(
		SYS_clone, CLONE_NEWUSER | CLONE_FILES | CLONE_VFORK | SIGCHLD, 0, NULL, NULL, 0);
	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(-map_and_show(id, place));
	if (waitpid((pid_t)pid, &status, 0) != pid || !WIFEXITED(status))
		return -ECHILD;
	if (WEXITSTATUS(status) != 0)
		return -WEXITSTATUS(status);
	*ret_fd = TAKE_FD(place);
	return 0;
}

#define REPORT_FD_MIN 32 /* above the numbers of a program's own descriptors */
#define WORKER_NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)
#define SHARED_NAMESPACES (CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)

static const cap_value_t worker_capabilities[] = {CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_SETPCAP,
	CAP_SYS_RESOURCE,
	/* Only for a spare, which changes its user later. */
	CAP_SETUID, CAP_SETGID};
static const cap_value_t files_capabilities[] = {
	CAP_SYS_ADMIN, CAP_SETPCAP, CAP_SETUID, CAP_SETGID};

#define SPARE_CAPABILITIES 2 /* the last of them */

_Static_assert(FD_WORKER_INSIDE < PROGRAM_FDS_MAX, "the descriptors of a worker");

/* @cgroup is where it begins; -1: the caller's. */
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

/*
 * Clones a sibling in mount and pid namespaces of its own. Its pid is in @ret_pid before it runs.
 */
static long clone_sibling(volatile pid_t *ret_pid)
{
	struct clone_args args = {
		.flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_PARENT | CLONE_PARENT_SETTID,
		.parent_tid = (uint64_t)(uintptr_t)ret_pid,
	};

	return syscall(SYS_clone3, &args, sizeof(args));
}

static void send_report(int fd, char what, int value)
{
	struct child_report report = {.what = what, .value = value};

	(void)!write(fd, &report, sizeof(report));
}

static int become_agent(const struct cell *cell)
{
	/* In user mode setgroups(2) is denied and the caller's supplementary groups stay. */
	if (cell->maker->ids->count > 0 && setgroups(0, NULL) < 0)
		return -errno;
	if (setresgid(AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
		setresuid(AGENT_ID, AGENT_ID, AGENT_ID) < 0)
		return -errno;
	return confine_die_with_parent();
}

/*
 * The last steps of both children: ids, capabilities for the program's set-up, descriptors, exec.
 */
static _Noreturn void become_program(struct cell *cell, int report, int program, char *name,
	int *fds, int n_fds, const cap_value_t *capabilities, int n_capabilities)
{
	const struct workspace_limits *limits = &cell->request->limits;
	bool worker = program == cell->maker->worker_program;
	const char *kind = cell->spare != SPARE_NONE ? spare_kind_name(cell->spare)
						     : spare_shown_name(cell->request);
	char tmp[24], file_size[24], data[24], open_files[12], watches[12];
	char *const argv[] = {name, (char *)kind, cell->visible, worker ? tmp : NULL, file_size,
		data, open_files, (char *)(cell->readonly ? cell->readonly : ""),
		(char *)(cell->request->proxy_port > 0 ? WORKER_HAS_NETWORK : ""),
		(char *)(cell->allows_filters ? WORKER_ALLOWS_FILTERS : ""), watches, NULL};
	bool nobody = cell->spare == SPARE_WITHOUT_IDS;
	int r = nobody ? confine_die_with_parent() : become_agent(cell);

	snprintf(tmp, sizeof(tmp), "%llu", (unsigned long long)limits->tmp_bytes);
	snprintf(file_size, sizeof(file_size), "%llu", (unsigned long long)limits->file_size_bytes);
	snprintf(data, sizeof(data), "%llu", (unsigned long long)limits->data_bytes);
	snprintf(open_files, sizeof(open_files), "%u", limits->open_files);
	snprintf(watches, sizeof(watches), "%u", limits->watches);

	if (r == 0 && n_fds > FD_WORKER_INSIDE)
		r = root_inside_make(AGENT_ID, &fds[FD_WORKER_INSIDE]);
	if (r == 0)
		r = confine_pass_on_capabilities(
			capabilities, n_capabilities - (nobody ? 0 : SPARE_CAPABILITIES));
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

/* @network takes the cell's sockets; @private is the worker's end of cell->private. */
static _Noreturn void worker_child(
	struct cell *cell, int report, int go, int go_write, int network, int private)
{
	int fds[] = {-1, -1, CHILD_STDERR, cell->worker_fds[0], cell->worker_fds[1], cell->trees[0],
		cell->home, private, -1, -1};
	bool inside = cell->spare == SPARE_NONE && cell->request->root_inside;
	int n_fds = inside         ? FD_WORKER_INSIDE + 1
		    : cell->cgroup ? FD_WORKER_CGROUP + 1
				   : FD_WORKER_CGROUP;
	char byte;
	int r = 0;

	/* With the write end open, the worker would wait for itself if the spawner died now. */
	close(go_write);
	/* The worker's present cgroup, ws-N if there is one, becomes the root of its cgroup
	 * namespace. */
	if (unshare(CLONE_NEWCGROUP) < 0)
		r = -errno;
	if (r == 0)
		r = cell_sockets_make(cell->request->proxy_port, cell->cgroup != NULL, network);
	/*
	 * Its maps can be written only while it is dumpable, and until then its uid is the overflow
	 * id.
	 */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	send_report(report, r < 0 ? REPORT_FAILED : REPORT_READY, -r);
	if (r < 0 || read(go, &byte, 1) != 1)
		_exit(1);
	/*
	 * A new mount, not a descriptor of the host's: from that, ".." would lead to other
	 * workspaces' groups.
	 */
	if (cell->cgroup)
		r = mount_new_cgroup(&fds[FD_WORKER_CGROUP]);
	if (r < 0) {
		send_report(report, REPORT_FAILED, -r);
		_exit(1);
	}
	become_program(cell, report, cell->maker->worker_program, (char *)"cloister-worker", fds,
		n_fds, worker_capabilities, ARRAY_SIZE(worker_capabilities));
}

/*
 * The helper: joins the worker's namespaces and clones a sibling of the worker in mount and pid
 * namespaces of its own. @ret_files is as in clone_sibling().
 */
static _Noreturn void files_child(struct cell *cell, int report, volatile pid_t *ret_files)
{
	int fds[] = {-1, -1, CHILD_STDERR, cell->files_fds[0], cell->files_fds[1], cell->trees[1],
		cell->layers};
	long pid;

	if (setns(cell->pidfds[SPAWNER_OPENED_WORKER], SHARED_NAMESPACES) < 0) {
		send_report(report, REPORT_FAILED, errno);
		_exit(1);
	}
	send_report(report, REPORT_JOINED, 0);
	pid = clone_sibling(ret_files);
	if (pid != 0) {
		if (pid < 0)
			send_report(report, REPORT_FAILED, errno);
		_exit(0);
	}
	become_program(cell, report, cell->maker->files_program, (char *)"cloister-files", fds,
		ARRAY_SIZE(fds), files_capabilities, ARRAY_SIZE(files_capabilities));
}

/*
 * Makes a pipe for reports whose write end lies above every descriptor that the child's program
 * gets.
 */
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

/* Makes a socketpair over which the child sends the cell's sockets. */
static int network_pair(int *ret_ours, int *ret_childs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ret_ours = pair[0];
	*ret_childs = pair[1];
	return 0;
}

/*
 * Starts the worker. A byte to @ret_go lets it become uid 1000 of its namespace and then execute
 * its program; its reports come from @ret_report. No hostile process is in its cgroup yet.
 */
static int start_worker(struct cell *cell, uint64_t deadline, int *ret_go, int *ret_report)
{
	_cleanup_close_ int report = -1, report_write = -1, go = -1, go_write = -1, network = -1,
			    network_child = -1, private = -1;
	struct child_report message = {0};
	int pipe_fds[2], r;
	long pid;

	r = report_pipe(&report, &report_write);
	if (r == 0)
		r = network_pair(&network, &network_child);
	if (r == 0)
		r = cell_private_pair(&cell->private, &private);
	if (r == 0)
		r = cell_private_give(cell);
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
		worker_child(cell, report_write, go, go_write, network_child, private);
	cell->pids[SPAWNER_OPENED_WORKER] = (pid_t)pid;
	close_fd(&report_write);
	r = child_report_receive(report, deadline, &message);
	if (r <= 0)
		return r < 0 ? r : -EIO;
	if (message.what == REPORT_FAILED)
		return -message.value;
	r = cell_sockets_take(network, &cell->network);
	if (r < 0)
		return r;
	r = cell_cgroup_settle(cell->maker->cgroups, cell->cgroup, (pid_t)pid, &cell->id);
	if (r == 0 && cell->spare != SPARE_WITHOUT_IDS)
		r = cell_id_write_maps(cell->id, (pid_t)pid);
	if (r < 0)
		return r;
	*ret_go = TAKE_FD(go_write);
	*ret_report = TAKE_FD(report);
	return 0;
}

/*
 * @tenant is as in cell_start_new(). @go is a descriptor that the helper must close, because the
 * worker would otherwise wait for it if the spawner died now; -1: none.
 */
static int begin_files(struct cell *cell, const char *tenant, int go)
{
	_cleanup_close_ int report = -1, report_write = -1;
	struct cell_start *start;
	int r;
	long pid;

	r = report_pipe(&report, &report_write);
	if (r < 0)
		return r;
	r = cell_start_new(cell->maker->starts, tenant, &start, &cell->reason);
	if (r < 0)
		return r;
	pid = clone_process(0, NULL, SIGCHLD, cell_cgroup_cell_fd(cell->cgroup));
	if (pid < 0) {
		r = -errno;
		cell_start_drop(start);
		return r;
	}
	if (pid == 0) {
		close_fd(&go);
		files_child(cell, report_write, start->files);
	}
	cell_starts_add(cell->maker->starts, start, (pid_t)pid, TAKE_FD(report));
	/* The helper's pid stands for the process that it clones, until the helper ends:
	 * cell_starts_reaped(). */
	cell->pids[SPAWNER_OPENED_FILES] = (pid_t)pid;
	cell->start = start;
	return 0;
}

int cell_start_files(struct cell *cell)
{
	return begin_files(cell, cell->request->tenant, -1);
}

/* Starts the files process of a new cell, in which no hostile code has run. */
static int start_files(struct cell *cell, uint64_t deadline, int go)
{
	struct cell_start *start;
	int r = begin_files(cell, NULL, go);

	if (r < 0)
		return r;
	start = TAKE_PTR(cell->start);
	start->deadline = deadline;
	while ((r = cell_start_hear(start, go)) == 0)
		;
	if (r > 0)
		cell->pids[SPAWNER_OPENED_FILES] = *start->files;
	r = cell_start_end(start, r < 0 ? r : 0);
	if (r < 0)
		return r;
	cell->pidfds[SPAWNER_OPENED_FILES] = r;
	return 0;
}

/*
 * The files process joins namespaces that exist before the worker executes its program. It must do
 * so before the worker changes its user: until the exec, the spawner may not access such a process.
 * ptrace(2)
 */
int cell_start_both(struct cell *cell)
{
	uint64_t deadline = monotonic_ms() + LIMIT_CELL_START_MS;
	_cleanup_close_ int report = -1, go = -1;
	struct child_report message = {0};
	int files, r = start_worker(cell, deadline, &go, &report);

	if (r < 0)
		return r;
	files = start_files(cell, deadline, go);
	close_fd(&go); /* the worker exits if there is no files process */
	/* Without a worker the files process fails too: report the worker's reason. */
	r = child_report_receive(report, deadline, &message);
	if (r != 0)
		return r < 0 ? r : -message.value;
	if (files < 0)
		cell->failed = "start cloister-files";
	return files;
}

void cell_abandon(struct cell *cell)
{
	for (int i = 0; i < SPAWNER_OPENED_FDS; i++) {
		if (cell->pidfds[i] < 0)
			continue;
		pidfd_send_signal(cell->pidfds[i], SIGKILL, NULL, 0);
		close_fd(&cell->pidfds[i]);
	}
	cell_sockets_close(&cell->network);
}
