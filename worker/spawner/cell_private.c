// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner. The worker that sends a mount may be hostile when it ends, and cloisterd may
 * have been taken over when it asks: the mount is checked, and given to the same workspace only.
 */
#include "worker/spawner/cell_private.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/pass_mount.h"
#include "worker/spawner/cell_children.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

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
	uint64_t number; /* of its cell */
	pid_t worker;    /* 0 once reaped */
	bool unneeded;   /* ends with the worker */
};

/* Indexes into the descriptors. */
enum {
	MOUNT, /* -1 while the worker lives */
	SOCKET /* where the worker has sent the mount; -1 once it is taken */
};

void cell_privates_init(struct cell_privates *privates)
{
	LIST_INIT(&privates->live);
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
		return false; /* the worker has sent what it should not, which may be anything */
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

/* A tenant that fills them faster than their files are removed waits: they take memory. */
static int wait_for_closers(struct cell *cell)
{
	if (closers_count(&cell->maker->privates->closers, cell->request->tenant) <
		LIMIT_PRIVATES_GONE)
		return 0;
	cell->reason = "the files that too many of the tenant's workspaces have left in /tmp are "
		       "still being removed: try again in a moment";
	return -SPAWNER_NOT_NOW;
}

int cell_private_take(struct cell *cell)
{
	struct cell_privates *privates = cell->maker->privates;
	uint64_t number = cell->request->kept;
	struct cell_private *tmpfs = number > 0 ? find(list_of(privates, number), number) : NULL;
	struct owner owner = owner_of(cell);

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
		.worker = cell->pids[SPAWNER_OPENED_WORKER],
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

/* Takes the mount that the worker has sent before it ended. */
static int take(struct cell_private *tmpfs)
{
	int *fds = tmpfs->closing.fds;
	int fd = take_mount(fds[SOCKET]);

	if (fd == -EPIPE || fd == -ECONNRESET)
		close_fd(&fds[SOCKET]); /* it has sent nothing */
	if (fd < 0)
		return fd;
	fds[MOUNT] = fd;
	if (!is_bounded(tmpfs, fd) || has_more(fds[SOCKET]))
		return -EBADMSG;
	close_fd(&fds[SOCKET]);
	return 0;
}

static void end_worker(struct cell_privates *privates, struct cell_private *tmpfs)
{
	int r = take(tmpfs);

	tmpfs->worker = 0;
	LIST_REMOVE(tmpfs, entry);
	if (r < 0 || tmpfs->unneeded || privates->n_kept >= LIMIT_WORKSPACES) {
		end(privates, tmpfs);
		return;
	}
	LIST_INSERT_HEAD(list_of(privates, tmpfs->number), tmpfs, entry);
	privates->n_kept++;
}

void cell_privates_reaped(struct cell_privates *privates, pid_t pid)
{
	struct cell_private *tmpfs;

	LIST_FOREACH (tmpfs, &privates->live, entry)
		if (tmpfs->worker == pid)
			break;
	if (tmpfs)
		end_worker(privates, tmpfs);
	closers_reaped(&privates->closers, pid);
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
	if (tmpfs)
		tmpfs->unneeded = true;
}
