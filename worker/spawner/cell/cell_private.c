// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, and in its children, the taker and the tmpfs closer. The worker that sends a
 * mount may be hostile when it ends, and cloisterd may have been taken over when it asks: the mount
 * is checked, and given to the same workspace only. The kernel may wait for a hostile sender when a
 * descriptor is received, looked at or closed. The taker does that, and passes on only a mount of a
 * tmpfs, which makes nobody wait. With the last descriptor of a tmpfs the kernel removes all its
 * files, within close(2), and how many there are is up to a workspace. The tmpfs closer has the
 * descriptors when the spawner closes its own, and is the last to close them, by ending.
 */
#include "worker/spawner/cell/cell_private.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "worker/pass_mount.h"
#include "worker/spawner/cell/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* What must be the same for the next cell to get it. */
struct owner {
	uid_t uid;
	dev_t dev;
	ino_t ino;
	uint64_t tmp_bytes;
	uint8_t kind;
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
};

struct cell_private {
	struct job closing; /* first */
	int fds[2];         /* -1: none, or only the tmpfs closer has it */
	LIST_ENTRY(cell_private) entry;
	struct owner owner;
	uint64_t number;  /* of its cell */
	pid_t process;    /* the worker, then the taker; 0 once reaped */
	bool unneeded;    /* ends with the worker */
	bool is_awaited;  /* the taker, once already */
	uint64_t late_ms; /* as monotonic_ms(): the taker runs for too long to be waited for */
};

/* Indexes into the descriptors. */
enum {
	MOUNT, /* -1 until the taker has passed it on */
	SOCKET /* where the worker sends the mount, then the taker; -1 after that */
};

/* The tmpfs closer. */

/* A host without idle processors must get its memory back, too, so it is not the lowest. */
#define CLOSER_NICE 10

struct closer {
	struct forked forked; /* first */
	int alone;
};

static const struct setup_step alone_steps[] = {
	{"die with the spawner", forked_die_with_spawner},
	{"keep no capability", forked_keep_nothing},
	{"close what it does not need", forked_close_others},
};

/*
 * The end of the pipe is read when the spawner has closed its own descriptors. The tmpfs closer
 * does not call close(2), which waits for a lingering socket: what exit(2) closes lingers in the
 * background. socket(7)
 */
static int close_last(void *context)
{
	const struct closer *closer = context;
	char byte;

	(void)setpriority(PRIO_PROCESS, 0, CLOSER_NICE);
	(void)!read(closer->alone, &byte, 1);
	return 0;
}

static const struct forked_kind closer_kind = {
	.name = "cloister-closer",
	.steps = alone_steps,
	.n_steps = ARRAY_SIZE(alone_steps),
	.work = close_last,
};

static pid_t start_closer(struct job *job)
{
	struct cell_private *tmpfs = (struct cell_private *)job;
	struct closer closer = {
		.forked = {.kept = {tmpfs->fds[MOUNT], tmpfs->fds[SOCKET]}, .n_kept = 3}};
	int pipe_fds[2];
	pid_t pid;

	/* For want of memory, for instance: the descriptors stay until there is a tmpfs closer. */
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return JOB_WAITS;
	closer.alone = closer.forked.kept[2] = pipe_fds[0];
	pid = forked_start(&closer_kind, &closer.forked);
	for (size_t i = 0; pid > 0 && i < ARRAY_SIZE(tmpfs->fds); i++)
		close_fd(&tmpfs->fds[i]);
	/* The tmpfs closer waits for this. */
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return pid < 0 ? JOB_WAITS : pid;
}

static void closed(struct job *job, int result)
{
	(void)result;
	free(job);
}

/* One of a tenant's that hangs keeps only the others of the tenant waiting. */
static const struct job_kind closing = {
	.at_once = LIMIT_CLOSERS,
	.of_tenant = 1,
	.late_ms = LIMIT_CLOSER_MS,
	.is_tried_again = true,
	.start = start_closer,
	.ended = closed,
};

void cell_privates_init(struct cell_privates *privates, struct jobs *jobs)
{
	LIST_INIT(&privates->live);
	LIST_INIT(&privates->looked_at);
	for (size_t i = 0; i < CELL_PRIVATE_LISTS; i++)
		LIST_INIT(&privates->kept[i]);
	privates->n_kept = 0;
	job_queue_init(&privates->closers, jobs, &closing, NULL);
}

int cell_private_pair(int *ret_ours, int *ret_workers)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	*ret_ours = pair[0];
	*ret_workers = pair[1];
	return 0;
}

static struct owner owner_of(const struct cell *cell)
{
	const struct stat *root = &cell->place->stat;
	struct owner owner = {.uid = cell->id.uid,
		.dev = root->st_dev,
		.ino = root->st_ino,
		.tmp_bytes = cell->request->limits.tmp_bytes,
		.kind = cell->request->kind};

	memcpy(owner.tenant, cell->request->tenant, sizeof(owner.tenant));
	return owner;
}

static bool is_same_owner(const struct owner *a, const struct owner *b)
{
	return a->uid == b->uid && a->dev == b->dev && a->ino == b->ino &&
	       a->tmp_bytes == b->tmp_bytes && a->kind == b->kind &&
	       strcmp(a->tenant, b->tenant) == 0;
}

/* Whether to remove its files takes so little time that the spawner may do it. */
static bool is_small(const struct cell_private *tmpfs)
{
	const int *fds = tmpfs->fds;
	struct statfs status;

	if (fds[SOCKET] >= 0)
		return false; /* what the worker has sent may be anything */
	if (fds[MOUNT] < 0)
		return true;
	if (fstatfs(fds[MOUNT], &status) < 0)
		return false;
	return status.f_files - status.f_ffree <= LIMIT_PRIVATE_SMALL_FILES &&
	       (status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize <=
		       LIMIT_PRIVATE_SMALL_BYTES;
}

/* It is on no list. Its descriptors may be the last ones. */
static void end_private_tmpfs(struct cell_privates *privates, struct cell_private *tmpfs)
{
	/* Without memory the spawner removes the files; it never closes a hostile socket. */
	if (!is_small(tmpfs) &&
		job_add(&privates->closers, &tmpfs->closing, tmpfs->owner.tenant) == 0)
		return;
	close_fd(&tmpfs->fds[MOUNT]);
	free(tmpfs);
}

static struct cell_private_list *list_of(struct cell_privates *privates, uint64_t number)
{
	return &privates->kept[number % CELL_PRIVATE_LISTS];
}

static struct cell_private *find_private_tmpfs(
	const struct cell_private_list *list, uint64_t number)
{
	struct cell_private *tmpfs;

	LIST_FOREACH (tmpfs, list, entry)
		if (tmpfs->number == number)
			break;
	return tmpfs;
}

static size_t count_late(const struct cell_privates *privates, const char *tenant)
{
	const struct cell_private *tmpfs;
	size_t n = 0;

	LIST_FOREACH (tmpfs, &privates->looked_at, entry)
		n += monotonic_left_ms(tmpfs->late_ms) == 0 &&
		     strcmp(tmpfs->owner.tenant, tenant) == 0;
	return n;
}

/*
 * A tenant that fills them faster than their files are removed waits: they take memory. So does one
 * whose workers have sent what makes their takers wait.
 */
static int wait_for_closers(struct cell *cell)
{
	const struct cell_privates *privates = cell->maker->privates;
	const char *tenant = cell->request->tenant;

	if (job_queue_count(&privates->closers, tenant) + count_late(privates, tenant) <
		LIMIT_PRIVATES_GONE)
		return 0;
	cell->reason = "the files that too many of the tenant's workspaces have left in /tmp are "
		       "still being removed: try again in a moment";
	return -SPAWNER_NOT_NOW;
}

int cell_private_give(struct cell *cell)
{
	int r = cell->kept ? pass_mount(cell->private, cell->kept->fds[MOUNT]) : 0;

	/* The process has ended, and the spawner has not reaped it yet. */
	return r == -EPIPE || r == -ECONNRESET ? -ESRCH : r;
}

void cell_private_given(struct cell *cell)
{
	/* Its worker may have ended already. */
	if (cell->kept)
		end_private_tmpfs(cell->maker->privates, TAKE_PTR(cell->kept));
}

void cell_private_hold(struct cell *cell)
{
	struct cell_private *tmpfs = malloc(sizeof(*tmpfs));

	if (!tmpfs) {
		close_fd(&cell->private);
		return;
	}
	*tmpfs = (struct cell_private){.owner = owner_of(cell),
		.number = cell->number,
		.process = cell->pids[SPAWNER_OPENED_WORKER],
		.fds = {-1, TAKE_FD(cell->private)}};
	LIST_INSERT_HEAD(&cell->maker->privates->live, tmpfs, entry);
}

/*
 * Whether @fd is a tmpfs that is no larger than the workspace's may be. A worker that was taken
 * over can send another, but it has made none that outlives it. The kernel rounds up to pages.
 */
static bool is_bounded(const struct cell_private *tmpfs, int fd)
{
	struct statfs status;
	struct stat stat_buf;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || !(flags & O_PATH) || fstat(fd, &stat_buf) < 0 ||
		!S_ISDIR(stat_buf.st_mode) || fstatfs(fd, &status) < 0)
		return false;
	return status.f_type == TMPFS_MAGIC && status.f_bsize > 0 &&
	       status.f_files <= LIMIT_TMP_INODES && status.f_blocks > 0 &&
	       status.f_blocks <= (tmpfs->owner.tmp_bytes + (uint64_t)status.f_bsize - 1) /
					  (uint64_t)status.f_bsize;
}

/* Whether the worker has sent more than one, which it does only if it was taken over. */
static bool has_more(int socket)
{
	char byte;

	return recv(socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) > 0;
}

/*
 * Returns the mount, or -errno if what the worker has sent is something else. A message with more
 * than a mount stays on the socket: with exit(2), its sockets linger in the background.
 */
static int look_at_private_tmpfs(const struct cell_private *tmpfs)
{
	int socket = tmpfs->fds[SOCKET];
	char byte;
	int fd = peek_mount(socket);

	/* The worker has not read the mount that it was given. The error is told once. */
	if (fd == -ECONNRESET)
		fd = peek_mount(socket);
	if (fd < 0 || !is_bounded(tmpfs, fd))
		return -EBADMSG;
	/* Its only descriptor is @fd, too: nothing is closed. */
	if (recv(socket, &byte, sizeof(byte), MSG_DONTWAIT) < 0 || has_more(socket))
		return -EBADMSG;
	return fd;
}

struct taker {
	struct forked forked; /* first */
	const struct cell_private *tmpfs;
	int spawner;
};

/* The spawner says when it has closed its own descriptors: then this process is the last. */
static int take_look(void *context)
{
	const struct taker *taker = context;
	char byte;
	int fd;

	if (recv(taker->spawner, &byte, sizeof(byte), 0) != sizeof(byte))
		return -EPIPE;
	fd = look_at_private_tmpfs(taker->tmpfs);
	if (fd >= 0)
		(void)pass_mount(taker->spawner, fd);
	return 0;
}

static const struct forked_kind taker_kind = {
	.name = "cloister-taker",
	.steps = alone_steps,
	.n_steps = ARRAY_SIZE(alone_steps),
	.work = take_look,
};

/* Begins to look at what the worker has sent before it ended. Returns 0 or -errno. */
static int start_taker(struct cell_private *tmpfs)
{
	int *socket = &tmpfs->fds[SOCKET];
	struct taker taker = {.tmpfs = tmpfs};
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	taker.spawner = pair[1];
	taker.forked = (struct forked){.kept = {*socket, pair[1]}, .n_kept = 2};
	pid = forked_start(&taker_kind, &taker.forked);
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return pid;
	}
	close(*socket);
	*socket = pair[0];
	tmpfs->process = pid;
	tmpfs->late_ms = monotonic_ms() + LIMIT_CLOSER_MS;
	(void)!send(pair[0], "g", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	return 0;
}

/* The taker has passed on the mount, or has found none. It is on no list. */
static void have_taken(struct cell_privates *privates, struct cell_private *tmpfs)
{
	int *fds = tmpfs->fds, fd = take_mount(fds[SOCKET]);

	close_fd(&fds[SOCKET]);
	if (fd >= 0)
		fds[MOUNT] = fd;
	if (fd < 0 || tmpfs->unneeded || privates->n_kept >= LIMIT_WORKSPACES) {
		end_private_tmpfs(privates, tmpfs);
		return;
	}
	LIST_INSERT_HEAD(list_of(privates, tmpfs->number), tmpfs, entry);
	privates->n_kept++;
}

static void end_worker(struct cell_privates *privates, struct cell_private *tmpfs)
{
	LIST_REMOVE(tmpfs, entry);
	tmpfs->process = 0;
	if (start_taker(tmpfs) < 0) {
		end_private_tmpfs(privates, tmpfs);
		return;
	}
	LIST_INSERT_HEAD(&privates->looked_at, tmpfs, entry);
}

static struct cell_private *find_process(const struct cell_private_list *list, pid_t pid)
{
	struct cell_private *tmpfs;

	LIST_FOREACH (tmpfs, list, entry)
		if (tmpfs->process == pid)
			break;
	return tmpfs;
}

void cell_privates_reaped(struct cell_privates *privates, pid_t pid)
{
	struct cell_private *tmpfs = find_process(&privates->live, pid);

	if (tmpfs)
		end_worker(privates, tmpfs);
	tmpfs = find_process(&privates->looked_at, pid);
	if (tmpfs) {
		LIST_REMOVE(tmpfs, entry);
		have_taken(privates, tmpfs);
	}
}

/*
 * Waits for the taker, as a rule for less than a millisecond, and once only: a hostile worker holds
 * it up. After that, calls are told to come again, and a cell without the old files begins in the
 * end. Returns whether the cell is to wait.
 */
static bool await_taker(struct cell_privates *privates, struct cell_private *tmpfs)
{
	struct pollfd poll_fd = {.fd = tmpfs->fds[SOCKET], .events = POLLIN};

	if (poll(&poll_fd, 1, tmpfs->is_awaited ? 0 : LIMIT_PRIVATE_AWAIT_MS) > 0) {
		LIST_REMOVE(tmpfs, entry);
		have_taken(privates, tmpfs);
		return false;
	}
	tmpfs->is_awaited = true;
	if (monotonic_left_ms(tmpfs->late_ms) > 0)
		return true;
	tmpfs->unneeded = true;
	return false;
}

int cell_private_take(struct cell *cell)
{
	struct cell_privates *privates = cell->maker->privates;
	uint64_t number = cell->request->kept;
	struct cell_private *tmpfs =
		number > 0 ? find_private_tmpfs(&privates->looked_at, number) : NULL;
	struct owner owner = owner_of(cell);

	if (tmpfs && await_taker(privates, tmpfs)) {
		cell->reason = "what the workspace's last processes have left in /tmp is still "
			       "being looked at: try again in a moment";
		return -SPAWNER_NOT_NOW;
	}
	tmpfs = number > 0 ? find_private_tmpfs(list_of(privates, number), number) : NULL;
	if (!tmpfs)
		return wait_for_closers(cell);
	LIST_REMOVE(tmpfs, entry);
	privates->n_kept--;
	if (is_same_owner(&tmpfs->owner, &owner)) {
		cell->kept = tmpfs;
		return 0;
	}
	end_private_tmpfs(privates, tmpfs);
	return wait_for_closers(cell);
}

void cell_privates_let_go(struct cell_privates *privates, uint64_t number)
{
	struct cell_private *tmpfs = find_private_tmpfs(list_of(privates, number), number);

	if (tmpfs) {
		LIST_REMOVE(tmpfs, entry);
		privates->n_kept--;
		end_private_tmpfs(privates, tmpfs);
		return;
	}
	/* What a worker that lives has sent is not the last of it, so how large it is tells
	 * nothing. */
	tmpfs = find_private_tmpfs(&privates->live, number);
	if (!tmpfs)
		tmpfs = find_private_tmpfs(&privates->looked_at, number);
	if (tmpfs)
		tmpfs->unneeded = true;
}
