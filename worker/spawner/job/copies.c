// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. It looks up names in cloister's own state directory only, in directories
 * that no workspace can write, and nothing in a workspace or template, which are hostile: a copier
 * reads those.
 */
#include "worker/spawner/job/copies.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/program.h"
#include "common/selftest_tenants.h"
#include "common/unpack_report.h"
#include "common/wire/fixed_fds.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/spawner/cell/cell_id.h"
#include "worker/spawner/cell/cell_make.h"
#include "worker/spawner/job/tree_copier.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/wait.h>

struct unpacker {
	int program;        /* O_PATH; borrowed */
	int source, target; /* detached mounts; both are taken */
	int report;         /* borrowed */
	struct cell_id id;
	bool drops_groups; /* system mode: the supplementary groups are dropped */
	uint64_t max_bytes, max_files;
};

/*
 * Starts cloister-unpack, which makes a template of an archive, in new user, mount, pid, IPC, UTS
 * and network namespaces, and with only cloister's id. Neither the spawner nor the child, until it
 * executes that program, looks into the archive. user_namespaces(7), clone(2).
 */

#define NAMESPACES \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET)

#ifdef __SANITIZE_ADDRESS__
#define CHILD_STDERR 2 /* a sanitizer's report must reach the log */
#else
#define CHILD_STDERR (-1)
#endif

static int become_agent(const struct unpacker *unpacker)
{
	static const cap_value_t passed[] = {CAP_SYS_ADMIN, CAP_SETPCAP};

	if ((unpacker->drops_groups && setgroups(0, NULL) < 0) ||
		setresgid(AGENT_ID, AGENT_ID, AGENT_ID) < 0 ||
		setresuid(AGENT_ID, AGENT_ID, AGENT_ID) < 0)
		return -errno;
	return confine_pass_on_capabilities(passed, ARRAY_SIZE(passed));
}

static _Noreturn void be_unpacker(const struct unpacker *unpacker, int socket)
{
	const int fds[] = {
		-1, -1, CHILD_STDERR, unpacker->source, unpacker->target, unpacker->report};
	char max_bytes[24], max_files[24], byte = 'r';
	char *const argv[] = {(char *)"cloister-unpack", max_bytes, max_files, NULL};

	snprintf(max_bytes, sizeof(max_bytes), "%llu", (unsigned long long)unpacker->max_bytes);
	snprintf(max_files, sizeof(max_files), "%llu", (unsigned long long)unpacker->max_files);
	/* Its maps can be written only while it is dumpable. */
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (confine_die_with_parent() < 0 || send(socket, &byte, 1, MSG_NOSIGNAL) != 1 ||
		recv(socket, &byte, 1, 0) != 1 || become_agent(unpacker) < 0)
		_exit(UINT8_MAX);
	(void)program_execute(unpacker->program, argv, fds, ARRAY_SIZE(fds));
	_exit(UINT8_MAX);
}

/* Maps its one id as soon as it waits for that. */
static int set_up(const struct unpacker *unpacker, int socket, pid_t pid)
{
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	uint64_t deadline = monotonic_ms() + LIMIT_CELL_START_MS;
	char byte;
	int r;

	do
		r = poll(&poll_fd, 1, monotonic_left_ms(deadline));
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -ETIMEDOUT;
	if (recv(socket, &byte, 1, MSG_DONTWAIT) != 1)
		return -EIO;
	r = cell_id_write_maps(unpacker->id, pid);
	return r == 0 && send(socket, "g", 1, MSG_NOSIGNAL) != 1 ? -EIO : r;
}

/* Starts it. Returns its pid, to be reaped by the caller, or -errno. */
static pid_t unpacker_start(struct unpacker *unpacker)
{
	struct clone_args args = {.flags = NAMESPACES, .exit_signal = SIGCHLD};
	int pair[2] = {-1, -1}, r = 0;
	long pid = -1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		r = -errno;
	if (r == 0)
		pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		close(pair[0]);
		be_unpacker(unpacker, pair[1]);
	}
	if (r == 0 && pid < 0)
		r = -errno;
	close_fd(&pair[1]);
	if (r == 0)
		r = set_up(unpacker, pair[0], (pid_t)pid);
	close_fd(&pair[0]);
	close_fd(&unpacker->source);
	close_fd(&unpacker->target);
	if (r < 0 && pid > 0)
		kill((pid_t)pid, SIGKILL); /* to be reaped as a process that nobody waits for */
	return r < 0 ? r : (pid_t)pid;
}

/* Decodes the exit @status: 0; -EBADMSG if it has reported why it failed; or another -errno. */
static int unpacker_result(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == UNPACK_EXIT_TOLD)
		return -EBADMSG;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EIO;
}

struct copy {
	struct job job; /* first */
	const struct cell_maker *maker;
	uint64_t number;
	struct live_cell *live; /* keeps a fork's id until its directory has its name */
	struct tree_copier copier;
	int report; /* of cloister-unpack; -1: a copier reads the source */
	int target; /* O_PATH, for its file system */
};

/* A copy that is about to begin. */
struct plan {
	const struct cell_maker *maker;
	char tenant[LIMIT_NAME_BYTES + 1], template[LIMIT_TEMPLATE_TREE_BYTES + 1],
		target[LIMIT_NAME_BYTES + 1];
	int target_fd; /* O_PATH */
	struct stat target_stat;
	struct tree_copier copier;
	const char *step, *reason;
};

static int refuse_copy(struct plan *plan, const char *reason)
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
		place_open(ids->managed, template ? TEMPLATES : NULL, plan->tenant, plan->target);
	if (plan->target_fd < 0)
		return plan->target_fd;
	if (fstat(plan->target_fd, &plan->target_stat) < 0)
		return -errno;
	return plan->target_stat.st_uid == ids->own.uid
		       ? 0
		       : refuse_copy(plan, "the place of the copy is not cloister's own");
}

static int begin_copy(
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
	/* cloisterd asks for fewer. */
	if (job_queue_count(&maker->copies->copying, plan->tenant) >= LIMIT_COPIES ||
		job_queue_count(&maker->copies->unpacking, plan->tenant) >= LIMIT_COPIES)
		return -EBUSY;
	if (!policy_managed(maker->policy, plan->tenant))
		return refuse_copy(plan, "the tenant has no managed workspaces");
	return 0;
}

static pid_t start_copier(struct job *job)
{
	return tree_copier_start(&((struct copy *)job)->copier);
}

/* Starts cloister-unpack with the bounds and trees of a copier. */
static pid_t start_unpacker(struct job *job)
{
	struct copy *copy = (struct copy *)job;
	struct unpacker unpacker = {.program = copy->maker->unpack_program,
		.source = TAKE_FD(copy->copier.from),
		.target = TAKE_FD(copy->copier.to),
		.report = copy->report,
		.id = copy->maker->ids->own,
		.drops_groups = copy->maker->ids->count > 0,
		.max_bytes = copy->copier.max_bytes,
		.max_files = copy->copier.max_files};
	pid_t pid = unpacker_start(&unpacker);

	close_fd(&copy->report);
	return pid;
}

static void copy_free(struct copy *copy)
{
	static const pid_t none[2];

	cell_ids_holds(copy->live, none);
	close_fd(&copy->copier.from);
	close_fd(&copy->copier.to);
	close_fd(&copy->report);
	close_fd(&copy->target);
	free(copy);
}

static void copy_job_ended(struct job *job, int result)
{
	struct copy *copy = (struct copy *)job;
	const struct copies *copies = copy->maker->copies;
	uint64_t number = copy->number;

	copy_free(copy);
	copies->tell(copies->context, number, result);
}

static uint64_t smaller_bound(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Whether others could soon write nothing more: cloister-unpack may have been taken over, and then
 * counts no bytes and no files. Some file systems, such as btrfs, count no files.
 */
static int look_at_disk(const struct job *job)
{
	struct statfs found;

	if (fstatfs(((const struct copy *)job)->target, &found) < 0)
		return 0;
	return (uint64_t)found.f_bavail * (uint64_t)found.f_frsize <
				       smaller_bound(LIMIT_UNPACK_FREE_BYTES,
					       (uint64_t)found.f_blocks * (uint64_t)found.f_frsize /
						       LIMIT_UNPACK_FREE_PART) ||
			       found.f_ffree < smaller_bound(LIMIT_UNPACK_FREE_FILES,
						       found.f_files / LIMIT_UNPACK_FREE_PART)
		       ? -ENOSPC
		       : 0;
}

static const struct job_kind copying = {.at_once = LIMIT_COPIES,
	.of_tenant = LIMIT_COPIES_OF_TENANT,
	.kept = LIMIT_COPIES_KEPT,
	.late_ms = LIMIT_COPY_LATE_MS,
	.end_ms = LIMIT_COPY_MS,
	.start = start_copier,
	.ended = copy_job_ended};

static const struct job_kind unpacking = {.at_once = LIMIT_UNPACKERS,
	.of_tenant = 1,
	.late_ms = LIMIT_COPY_LATE_MS,
	.end_ms = LIMIT_COPY_MS,
	.look_ms = LIMIT_UNPACK_LOOK_MS,
	.look = look_at_disk,
	.start = start_unpacker,
	.result = unpacker_result,
	.ended = copy_job_ended};

void copies_init(struct copies *copies, struct jobs *jobs, copies_tell tell, void *context)
{
	*copies = (struct copies){.tell = tell, .context = context};
	job_queue_init(&copies->copying, jobs, &copying, copies);
	job_queue_init(&copies->unpacking, jobs, &unpacking, copies);
}

/*
 * Queues the copy of a plan that has its source, and takes what it needs; with the pipe @report
 * cloister-unpack reads the source, otherwise that is -1. Takes @live in any case.
 */
static int add_copy(struct plan *plan, uint64_t number, struct live_cell *live, int report)
{
	static const pid_t none[2];
	struct copies *copies = plan->maker->copies;
	struct copy *copy = calloc(1, sizeof(*copy));
	int r;

	plan->step = "start a copy";
	if (!copy) {
		cell_ids_holds(live, none);
		return -ENOMEM;
	}
	*copy = (struct copy){.maker = plan->maker,
		.number = number,
		.live = live,
		.copier = plan->copier,
		.report = report < 0 ? -1 : fcntl(report, F_DUPFD_CLOEXEC, 0),
		.target = TAKE_FD(plan->target_fd)};
	plan->copier.from = -1;
	r = report >= 0 && copy->report < 0 ? -errno
					    : mount_clone(copy->target, "", 0, &copy->copier.to);
	if (r == 0)
		r = job_add(report < 0 ? &copies->copying : &copies->unpacking, &copy->job,
			plan->tenant);
	if (r < 0)
		copy_free(copy);
	return r;
}

static int end_copy_plan(struct plan *plan, int r, const char **ret_step)
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
		return refuse_copy(plan, "it is no managed workspace of the tenant");
	return 0;
}

int copies_freeze(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int worker, const char **ret_step)
{
	struct plan plan;
	int r = begin_copy(&plan, maker, request);

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
		r = add_copy(&plan, number, NULL, -1);
	return end_copy_plan(&plan, r, ret_step);
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
		return refuse_copy(plan, "it is neither a directory nor a regular file any more");
	return is_of_selftest(plan, place) ||
			       (place->n_parents > 0 &&
				       place_is_apart(place, plan->maker->ids->managed))
		       ? 0
		       : refuse_copy(plan, "it is part of cloister's own state");
}

/* With a pipe @report, cloister-unpack reads the source; otherwise a copier does. */
static int take_in(const struct cell_maker *maker, uint64_t number,
	const struct spawner_copy *request, struct place *place, int report, const char **ret_step)
{
	struct plan plan;
	int r = begin_copy(&plan, maker, request);

	if (r == 0)
		r = check_source(&plan, place);
	if (r == 0)
		r = open_target(&plan, true);
	plan.copier.uid = maker->ids->own.uid;
	plan.copier.gid = maker->ids->own.gid;
	plan.copier.unprivileged = true;
	if (r == 0) {
		plan.copier.from = TAKE_FD(place->trees[0]);
		r = add_copy(&plan, number, NULL, report);
	}
	return end_copy_plan(&plan, r, ret_step);
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
	template = place_open(ids->managed, TEMPLATES, plan->tenant, plan->template);
	if (template <0)
		return template;
	if (fstat(template, &stat_buf) < 0)
		return -errno;
	if (stat_buf.st_uid != ids->own.uid)
		return refuse_copy(plan, "the template is not cloister's own");
	return mount_clone(template, "", 0, &plan->copier.from);
}

int copies_fork(const struct cell_maker *maker, uint64_t number, const struct spawner_copy *request,
	const char **ret_step)
{
	struct live_cell *live = NULL;
	struct plan plan;
	int r = begin_copy(&plan, maker, request);

	if (r == 0)
		r = open_template(&plan);
	if (r == 0)
		r = open_target(&plan, false);
	if (r == 0)
		r = choose_id(&plan, &live);
	if (r == 0)
		r = add_copy(&plan, number, live, -1);
	return end_copy_plan(&plan, r, ret_step);
}
