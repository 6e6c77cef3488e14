// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner, and in its child, the taker. The worker that sends a mount may be hostile
 * when it ends, and cloisterd may have been taken over when it asks: the mount is checked, and
 * given to the same workspace only. The kernel may wait for a hostile sender when a descriptor is
 * received, looked at or closed. The taker does that, and passes on only a mount of a tmpfs, which
 * makes nobody wait.
 */
#include "worker/spawner/cell_private.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "worker/confine.h"
#include "worker/pass_mount.h"
#include "worker/spawner/cell_children.h"
#include "worker/spawner/forked.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
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
	struct closing closing; /* first: has the two descriptors */
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

void cell_privates_init(struct cell_privates *privates)
{
	LIST_INIT(&privates->live);
	LIST_INIT(&privates->looked_at);
	for (size_t i = 0; i < CELL_PRIVATE_LISTS; i++)
		LIST_INIT(&privates->kept[i]);
	privates->n_kept = 0;
	closers_init(&privates->closers);
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

static bool is_same(const struct owner *a, const struct owner *b)
{
	return a->uid == b->uid && a->dev == b->dev && a->ino == b->ino &&
	       a->tmp_bytes == b->tmp_bytes && a->kind == b->kind &&
	       strcmp(a->tenant, b->tenant) == 0;
}

/* Whether to remove its files takes so little time that the spawner may do it. */
static bool is_small(const struct cell_private *tmpfs)
{
	const int *fds = tmpfs->closing.fds;
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
static void end(struct cell_privates *privates, struct cell_private *tmpfs)
{
	if (!is_small(tmpfs)) {
		closers_add(&privates->closers, &tmpfs->closing);
		return;
	}
	close_fd(&tmpfs->closing.fds[MOUNT]);
	free(tmpfs);
}

static struct cell_private_list *list_of(struct cell_privates *privates, uint64_t number)
{
	return &privates->kept[number % CELL_PRIVATE_LISTS];
}

static struct cell_private *find(const struct cell_private_list *list, uint64_t number)
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

	if (closers_count(&privates->closers, tenant) + count_late(privates, tenant) <
		LIMIT_PRIVATES_GONE)
		return 0;
	cell->reason = "the files that too many of the tenant's workspaces have left in /tmp are "
		       "still being removed: try again in a moment";
	return -SPAWNER_NOT_NOW;
}

int cell_private_give(struct cell *cell)
{
	int r = cell->kept ? pass_mount(cell->private, cell->kept->closing.fds[MOUNT]) : 0;

	/* The process has ended, and the spawner has not reaped it yet. */
	return r == -EPIPE || r == -ECONNRESET ? -ESRCH : r;
}

void cell_private_given(struct cell *cell)
{
	/* Its worker may have ended already. */
	if (cell->kept)
		end(cell->maker->privates, TAKE_PTR(cell->kept));
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
		.closing.fds = {-1, TAKE_FD(cell->private)}};
	tmpfs->closing.tenant = tmpfs->owner.tenant;
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
static int look(const struct cell_private *tmpfs)
{
	int socket = tmpfs->closing.fds[SOCKET];
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

/* The spawner says when it has closed its own descriptors: then this process is the last. */
static _Noreturn void be_taker(const struct cell_private *tmpfs, int spawner, pid_t parent)
{
	struct forked forked = {
		.spawner = parent, .kept = {tmpfs->closing.fds[SOCKET], spawner}, .n_kept = 2};
	char byte;
	int r, fd;

	(void)prctl(PR_SET_NAME, "cloister-taker");
	(void)forked_die_with_spawner(&forked);
	r = confine_keep_capabilities(NULL, 0);
	if (r == 0)
		r = forked_close_others(&forked);
	if (recv(spawner, &byte, sizeof(byte), 0) != sizeof(byte) || r < 0)
		_exit(1);
	fd = look(tmpfs);
	if (fd >= 0)
		(void)pass_mount(spawner, fd);
	_exit(0);
}

/* Begins to look at what the worker has sent before it ended. Returns 0 or -errno. */
static int start_taker(struct cell_private *tmpfs)
{
	int *socket = &tmpfs->closing.fds[SOCKET];
	pid_t parent = getpid(), pid;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = fork();
	if (pid == 0)
		be_taker(tmpfs, pair[1], parent);
	r = pid < 0 ? -errno : 0;
	close(pair[1]);
	if (r < 0) {
		close(pair[0]);
		return r;
	}
	close(*socket);
	*socket = pair[0];
	tmpfs->process = pid;
	tmpfs->late_ms = monotonic_ms() + LIMIT_CLOSER_MS;
	(void)!send(pair[0], "g", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	return 0;
}

/* The taker has passed on the mount, or has found none. It is on no list. */
static void taken(struct cell_privates *privates, struct cell_private *tmpfs)
{
	int *fds = tmpfs->closing.fds, fd = take_mount(fds[SOCKET]);

	close_fd(&fds[SOCKET]);
	if (fd >= 0)
		fds[MOUNT] = fd;
	if (fd < 0 || tmpfs->unneeded || privates->n_kept >= LIMIT_WORKSPACES) {
		end(privates, tmpfs);
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
		end(privates, tmpfs);
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
		taken(privates, tmpfs);
	}
	closers_reaped(&privates->closers, pid);
}

/*
 * Waits for the taker, as a rule for less than a millisecond, and once only: a hostile worker holds
 * it up. After that, calls are told to come again, and a cell without the old files begins in the
 * end. Returns whether the cell is to wait.
 */
static bool await_taker(struct cell_privates *privates, struct cell_private *tmpfs)
{
	struct pollfd poll_fd = {.fd = tmpfs->closing.fds[SOCKET], .events = POLLIN};

	if (poll(&poll_fd, 1, tmpfs->is_awaited ? 0 : LIMIT_PRIVATE_AWAIT_MS) > 0) {
		LIST_REMOVE(tmpfs, entry);
		taken(privates, tmpfs);
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
	struct cell_private *tmpfs = number > 0 ? find(&privates->looked_at, number) : NULL;
	struct owner owner = owner_of(cell);

	if (tmpfs && await_taker(privates, tmpfs)) {
		cell->reason = "what the workspace's last processes have left in /tmp is still "
			       "being looked at: try again in a moment";
		return -SPAWNER_NOT_NOW;
	}
	tmpfs = number > 0 ? find(list_of(privates, number), number) : NULL;
	if (!tmpfs)
		return wait_for_closers(cell);
	LIST_REMOVE(tmpfs, entry);
	privates->n_kept--;
	if (is_same(&tmpfs->owner, &owner)) {
		cell->kept = tmpfs;
		return 0;
	}
	end(privates, tmpfs);
	return wait_for_closers(cell);
}

void cell_privates_let_go(struct cell_privates *privates, uint64_t number)
{
	struct cell_private *tmpfs = find(list_of(privates, number), number);

	if (tmpfs) {
		LIST_REMOVE(tmpfs, entry);
		privates->n_kept--;
		end(privates, tmpfs);
		return;
	}
	/* What a worker that lives has sent is not the last of it, so how large it is tells
	 * nothing. */
	tmpfs = find(&privates->live, number);
	if (!tmpfs)
		tmpfs = find(&privates->looked_at, number);
	if (tmpfs)
		tmpfs->unneeded = true;
}

int cell_privates_bound(const struct cell_privates *privates)
{
	return closers_bound(&privates->closers);
}

void cell_privates_look(struct cell_privates *privates)
{
	closers_look(&privates->closers);
}
