// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner: the ordered steps in which a cell is made, gets a new files process, is made
 * ahead as a spare, and is assigned. The spawner is in its own user and mount namespace and has its
 * capabilities there. It trusts cloisterd to choose the directory, and a path resolver to have
 * opened that one. It asks no file system of a tenant's itself; the path resolver has done that.
 */
#include "worker/spawner/cell/cell_make.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"
#include "worker/mounts.h"
#include "worker/spare.h"
#include "worker/spawner/cell/cell_children.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

_Static_assert(
	(int)SPAWNER_OPEN_FILES_WORKER == (int)SPAWNER_ASSIGN_WORKER, "find_worker takes both");

/* Takes the directory that cloisterd checked, as a path resolver has opened it again. */
static int open_root(struct cell *cell)
{
	struct place *place = cell->place;

	if (place->root < 0) {
		cell->failed = place->step;
		return place->error;
	}
	snprintf(cell->visible, sizeof(cell->visible), "%s",
		spawner_open_visible(cell->request, place->path));
	cell->root = TAKE_FD(place->root);
	return 0;
}

static int check_channel(int down, int up)
{
	struct stat down_stat, up_stat;

	if (fstat(down, &down_stat) < 0 || fstat(up, &up_stat) < 0)
		return -errno;
	return S_ISSOCK(down_stat.st_mode) && S_ISSOCK(up_stat.st_mode) ? 0 : -EBADF;
}

/* Checks that the descriptors for the workspace's processes are the expected kinds of channels. */
static int check_files_channel(struct cell *cell)
{
	return check_channel(cell->files_fds[0], cell->files_fds[1]);
}

static int check_channels(struct cell *cell)
{
	int r = check_channel(cell->worker_fds[0], cell->worker_fds[1]);

	return r < 0 ? r : check_files_channel(cell);
}

/* A command may have removed the owner's permissions from a managed workspace's directory. */
static int open_up(const struct cell *cell, const struct stat *root)
{
	char link[64];

	if ((root->st_mode & S_IRWXU) == S_IRWXU)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", cell->root);
	return chmod(link, (root->st_mode & 07777) | S_IRWXU) < 0 ? -errno : 0;
}

const char *cell_readonly_paths(const struct cell_maker *maker, const char *tenant)
{
	if (!maker->policy)
		return *tenant ? maker->readonly : "";
	return policy_readonly_paths(maker->policy, tenant);
}

/* Whether the policy allows the cell. Also finds its read-only paths. */
static int check_policy(struct cell *cell)
{
	const struct cell_maker *maker = cell->maker;
	bool is_managed = cell->request->kind == WORKSPACE_MANAGED;
	char tenant[NAME_MAX + 1];

	if (maker->policy && (is_managed ? !cell_ids_managed_of(maker->ids, cell->place, tenant)
					 : !place_is_apart(cell->place, maker->ids->managed))) {
		cell->reason = is_managed ? "it is not where managed workspaces lie"
					  : "the directory is part of cloister's own state";
		return -SPAWNER_REFUSAL;
	}
	cell->readonly = cell_readonly_paths(maker, cell->request->tenant);
	cell->allows_filters = policy_allows_filters(maker->policy, cell->request->tenant);
	return policy_check(maker->policy, cell->place,
		is_managed ? &(struct policy_place){tenant, maker->ids->managed} : NULL,
		cell->request, &cell->reason);
}

/* May commands of this tenant be root in a user namespace of their own? */
static int check_root_inside(struct cell *cell)
{
	const struct spawner_open *request = cell->request;

	if (!request->root_inside || policy_root_inside(cell->maker->policy, request->tenant))
		return 0;
	cell->reason = "its tenant's configuration gives it no root_inside";
	return -SPAWNER_REFUSAL;
}

/* May commands of this tenant have a way to cloister-egress? */
static int check_network(struct cell *cell)
{
	const struct cell_maker *maker = cell->maker;
	const char *tenant = cell->request->tenant;

	if (cell->request->proxy_port == 0 ||
		(maker->policy ? policy_network(maker->policy, tenant) : maker->network && *tenant))
		return 0;
	cell->reason = "its tenant's configuration gives it no network";
	return -SPAWNER_REFUSAL;
}

/* Takes the mounts that the path resolver has cloned. */
static int take_trees(struct cell *cell)
{
	if (cell->place->error < 0) {
		cell->failed = cell->place->step;
		return cell->place->error;
	}
	for (size_t i = 0; i < PLACE_TREES; i++)
		cell->trees[i] = TAKE_FD(cell->place->trees[i]);
	return 0;
}

/* Returns the ids that a managed workspace may get: its tenant is where the directory is. */
static struct id_span ids_of_tenant(const struct cell *cell)
{
	const struct cell_maker *maker = cell->maker;
	char tenant[NAME_MAX + 1] = "";

	if (cell->request->kind == WORKSPACE_MANAGED)
		(void)cell_ids_managed_of(maker->ids, cell->place, tenant);
	return policy_ids(maker->policy, tenant, maker->ids->count);
}

static int choose_id(struct cell *cell)
{
	struct cell_ids *ids = cell->maker->ids;
	bool is_managed = cell->request->kind == WORKSPACE_MANAGED;
	struct stat *root = &cell->place->stat;
	int r = 0;

	/*
	 * The directory is on our own disk, and may have been given an id since the path resolver
	 * read it.
	 */
	if (is_managed && fstat(cell->root, root) < 0)
		return -errno;
	r = cell_ids_choose(
		ids, cell->root, root, is_managed, ids_of_tenant(cell), &cell->id, &cell->reason);
	if (r == 0)
		r = cell_ids_reserve(ids, cell->id, root, &cell->live);
	return r == 0 && is_managed ? open_up(cell, root) : r;
}

static int take_home(struct cell *cell)
{
	return cell_homes_take(cell->maker->homes, cell->request->tenant, cell->place,
		cell->request->kind == WORKSPACE_MANAGED, cell->id, &cell->home, &cell->live_home,
		&cell->reason);
}

/* A files process gets the same directory as its worker. */
static int check_same_root(struct cell *cell)
{
	cell->live = cell_ids_find(
		cell->maker->ids, cell->pids[SPAWNER_OPENED_WORKER], &cell->place->stat);
	cell->reason = "the directory is not that of the workspace's worker";
	return cell->live ? 0 : -SPAWNER_REFUSAL;
}

/*
 * Only one files process at a time: otherwise the id would count as free while the uncounted one
 * lives.
 */
static int check_files_gone(struct cell *cell)
{
	if (!cell_ids_has_files(cell->live))
		return 0;
	cell->reason = "the workspace has a files process";
	return -SPAWNER_REFUSAL;
}

static int make_cgroup(struct cell *cell)
{
	return cell_cgroup_make(
		cell->maker->cgroups, cell->number, &cell->request->limits, &cell->cgroup);
}

/*
 * Stores the pid of our living child. It stays valid, because only we reap it. Returns -ESRCH if
 * the child has ended and may have been reaped.
 */
static int living_child(int pidfd, pid_t *ret)
{
	_cleanup_close_ int info = -1;
	siginfo_t ended = {0};
	char path[64], text[512];
	const char *line;
	ssize_t n;

	if (waitid(P_PIDFD, (id_t)pidfd, &ended, WEXITED | WNOHANG | WNOWAIT) < 0)
		return errno == ECHILD ? -ESRCH : -errno;
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

/*
 * Checks that the worker is still in the user namespace that was made for it: it may have entered
 * one of its own.
 */
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
	int r = cell_cgroup_find(
		cell->maker->cgroups, cell->pids[SPAWNER_OPENED_WORKER], &cell->cgroup);

	cell->reason = "the workspace's worker has put another cgroup in the place of its own";
	return r == -ESTALE ? -SPAWNER_REFUSAL : r;
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
			*ret_step = r == -SPAWNER_REFUSAL || r == -SPAWNER_NOT_NOW ? cell->reason
				    : cell->failed                                 ? cell->failed
										   : steps[i].name;
	}
	close_fd(&cell->root);
	close_fd(&cell->trees[0]);
	close_fd(&cell->trees[1]);
	close_fd(&cell->layers);
	close_fd(&cell->home);
	return r;
}

/*
 * The sockets' owner, by which cloister-egress knows whose they are, becomes that of the workspace.
 * In user mode it is already.
 */
static int own_sockets(struct cell *cell)
{
	if (!cell_sockets_reach_egress(&cell->network) || cell->maker->ids->count == 0)
		return 0;
	return cell_sockets_own(&cell->network, cell->id.uid, cell->id.gid);
}

/* Returns a cell that has no descriptor of its own yet. */
static struct cell new_cell(const struct cell_maker *maker, const struct spawner_open *request,
	const int *fds, struct place *place)
{
	return (struct cell){.maker = maker,
		.request = request,
		.fds = fds,
		.place = place,
		.root = -1,
		.home = -1,
		.trees = {-1, -1},
		.layers = -1,
		.private = -1,
		.pidfds = {-1, -1},
		.network = cell_sockets_none()};
}

int cell_make(const struct cell_maker *maker, uint64_t number, const struct spawner_open *request,
	const int *fds, struct place *place, int ret_pidfds[SPAWNER_OPENED_FDS],
	struct cell_sockets *ret_network, const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"take its channels", check_channels},
		{"open the workspace's root", open_root},
		{"check the workspace against the configuration", check_policy},
		{"check the workspace's network against the configuration", check_network},
		{"check root_inside against the configuration", check_root_inside},
		{"take the workspace's mounts", take_trees},
		{"choose the workspace's id", choose_id},
		{"mount the workspace's layers", cell_layers_mount},
		{"open the workspace's home", take_home},
		{"find the workspace's private tmpfs", cell_private_take},
		{"make the workspace's cgroup", make_cgroup},
		{"start cloister-worker", cell_start_both},
		{"give the sockets to the workspace's id", own_sockets},
	};
	struct cell cell = new_cell(maker, request, fds, place);
	int r;

	cell.number = number;
	cell.worker_fds = &fds[SPAWNER_OPEN_WORKER_DOWN];
	cell.files_fds = &fds[SPAWNER_OPEN_FILES_DOWN];
	r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);

	cell_cgroup_holds(cell.cgroup, cell.pids, maker->cgroups);
	cell_ids_holds(cell.live, cell.pids);
	cell_layers_holds(cell.live_layers, cell.pids);
	cell_homes_holds(cell.live_home, cell.pids[SPAWNER_OPENED_WORKER]);
	if (r == 0)
		cell_private_hold(&cell);
	close_fd(&cell.private);
	cell_private_given(&cell);
	if (r < 0) {
		cell_abandon(&cell);
		return r;
	}
	memcpy(ret_pidfds, cell.pidfds, sizeof(cell.pidfds));
	*ret_network = cell.network;
	return 0;
}

int cell_make_files(const struct cell_maker *maker, const struct spawner_open *request,
	const int *fds, struct place *place, struct cell_start **ret_start, const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"take its channels", check_files_channel},
		{"find the workspace's worker", find_worker},
		{"check the worker's user namespace", check_namespace},
		{"open the workspace's root", open_root},
		{"find out whether it is the worker's", check_same_root},
		{"find out whether another is there", check_files_gone},
		{"check the workspace against the configuration", check_policy},
		{"take the workspace's mounts", take_trees},
		{"take the mount of the workspace's layers", cell_layers_mount_again},
		{"find the workspace's cgroup", find_cgroup},
		{"start cloister-files", cell_start_files},
	};
	struct cell cell = new_cell(maker, request, fds, place);
	int r;

	cell.files_fds = &fds[SPAWNER_OPEN_FILES_DOWN_AGAIN];
	r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);

	cell_cgroup_holds_files(cell.cgroup, cell.pids[SPAWNER_OPENED_FILES], maker->cgroups);
	if (cell.pids[SPAWNER_OPENED_FILES] > 0) {
		cell_ids_holds(cell.live, cell.pids);
		cell_layers_holds(cell.live_layers, cell.pids);
	}
	if (r == 0)
		*ret_start = cell.start;
	return r;
}

int cell_shown(const struct cell_maker *maker, struct place *place, int worker, int *ret_tree,
	const char **ret_reason)
{
	pid_t pid = -1;
	int r = living_child(worker, &pid);

	if (r < 0)
		return r;
	if (!cell_ids_find(maker->ids, pid, &place->stat)) {
		*ret_reason = "the directory is not that of the workspace's worker";
		return -SPAWNER_REFUSAL;
	}
	r = cell_layers_of(maker->layers, pid, ret_tree);
	if (r == -ENOENT) {
		*ret_tree = TAKE_FD(place->trees[0]);
		r = 0;
	}
	return r;
}

/*
 * Makes the sockets at which the two processes wait; each takes the place of the process's mount.
 */
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

static int remember_cell(struct cell *cell)
{
	return cell_spares_add(cell->maker->spares, cell);
}

int cell_prepare(const struct cell_maker *maker, uint64_t number,
	const struct spawner_open *request, const int *fds, int ret_pidfds[SPAWNER_OPENED_FDS],
	const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"take its channels", check_channels},
		{"check the network against the configuration", check_network},
		{"make sockets", make_sockets},
		{"make a cgroup", make_cgroup},
		{"start cloister-worker", cell_start_both},
		{"remember the cell", remember_cell},
	};
	struct cell cell = new_cell(maker, request, fds, NULL);
	int r;

	cell.number = number;
	cell.worker_fds = &fds[SPAWNER_PREPARE_WORKER_DOWN];
	cell.files_fds = &fds[SPAWNER_PREPARE_FILES_DOWN];
	cell.id = maker->ids->own;
	/* In user mode the id is known already. */
	cell.spare = maker->ids->count > 0 ? SPARE_WITHOUT_IDS : SPARE_WITH_IDS;
	cell.sockets[0] = cell.sockets[1] = -1;
	r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);

	cell_cgroup_holds(cell.cgroup, cell.pids, maker->cgroups);
	close_fd(&cell.sockets[0]);
	close_fd(&cell.sockets[1]);
	close_fd(&cell.private);
	if (r < 0) {
		cell_abandon(&cell);
		return r;
	}
	memcpy(ret_pidfds, cell.pidfds, sizeof(cell.pidfds));
	return 0;
}

/*
 * Finds a spare cell, and removes it from the list: a cell that has a workspace is never touched.
 */
static int find_waiting(struct cell *cell)
{
	int r = find_worker(cell);

	if (r < 0)
		return r;
	cell->waiting = cell_spares_take(cell->maker->spares, cell->pids[SPAWNER_OPENED_WORKER]);
	if (!cell->waiting)
		return -ESRCH;
	cell->pids[SPAWNER_OPENED_FILES] = cell->waiting->pids[SPAWNER_OPENED_FILES];
	cell->network = cell_sockets_move(&cell->waiting->network);
	cell->private = TAKE_FD(cell->waiting->private);
	cell->number = cell->waiting->number;
	cell->reason = "a spare cell has no user namespace for root_inside";
	if (cell->request->root_inside)
		return -SPAWNER_REFUSAL;
	if (cell_sockets_reach_egress(&cell->network) == (cell->request->proxy_port > 0))
		return 0;
	cell->reason = "the spare cell was made for another kind of network";
	return -SPAWNER_REFUSAL;
}

static int limit_cgroup(struct cell *cell)
{
	return cell_cgroup_limit(cell->maker->cgroups, cell->pids[SPAWNER_OPENED_WORKER],
		&cell->request->limits, &cell->id);
}

static int map_ids(struct cell *cell)
{
	/* In user mode the ids were mapped when the spare was made. */
	return cell->maker->ids->count == 0
		       ? 0
		       : cell_id_write_maps(cell->id, cell->pids[SPAWNER_OPENED_WORKER]);
}

static int tell_spare(struct cell *cell)
{
	int r = 0;

	for (int i = 0; r == 0 && i < 2; i++)
		r = spare_assign(cell->waiting->sockets[i], cell->request, cell->visible,
			i == SPAWNER_OPENED_WORKER ? cell->readonly : "", cell->allows_filters,
			cell->trees[i], i == SPAWNER_OPENED_WORKER ? cell->home : cell->layers);
	/* The process has ended, and the spawner has not reaped it yet. */
	return r == -EPIPE || r == -ECONNRESET ? -ESRCH : r;
}

int cell_assign(const struct cell_maker *maker, const struct spawner_open *request, const int *fds,
	struct place *place, struct cell_sockets *ret_network, const char **ret_step)
{
	static const struct cell_step steps[] = {
		{"find the waiting cell", find_waiting},
		{"open the workspace's root", open_root},
		{"check the workspace against the configuration", check_policy},
		{"check the workspace's network against the configuration", check_network},
		{"take the workspace's mounts", take_trees},
		{"choose the workspace's id", choose_id},
		{"mount the workspace's layers", cell_layers_mount},
		{"open the workspace's home", take_home},
		{"find the workspace's private tmpfs", cell_private_take},
		{"limit the workspace's cgroup", limit_cgroup},
		{"map the workspace's ids", map_ids},
		{"give the sockets to the workspace's id", own_sockets},
		{"give the worker the private tmpfs", cell_private_give},
		{"tell the waiting cell", tell_spare},
	};
	struct cell cell = new_cell(maker, request, fds, place);
	int r = take_steps(&cell, steps, ARRAY_SIZE(steps), ret_step);
	if (r == 0 && !cell.waiting->let_go)
		cell_private_hold(&cell);
	close_fd(&cell.private);
	cell_private_given(&cell);
	cell_spare_free(cell.waiting);
	/* Done after a failure too: a process with mapped ids lives until cloisterd kills it. */
	cell_ids_holds(cell.live, cell.pids);
	cell_layers_holds(cell.live_layers, cell.pids);
	cell_homes_holds(cell.live_home, cell.pids[SPAWNER_OPENED_WORKER]);
	if (r < 0)
		cell_sockets_close(&cell.network);
	else
		*ret_network = cell.network;
	return r;
}
