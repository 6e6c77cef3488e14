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
	LIST_ENTRY(cell_private) entry;
	struct owner owner;
	uint64_t number; /* of its cell */
	pid_t worker;    /* 0 once reaped */
	int socket;      /* where the worker has sent the mount; -1 once it is taken */
	int mount;       /* -1 while the worker lives */
};

void cell_privates_init(struct cell_privates *privates)
{
	LIST_INIT(&privates->live);
	for (size_t i = 0; i < CELL_PRIVATE_LISTS; i++)
		LIST_INIT(&privates->kept[i]);
	privates->n_kept = 0;
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

static void forget(struct cell_private *tmpfs)
{
	LIST_REMOVE(tmpfs, entry);
	close_fd(&tmpfs->socket);
	close_fd(&tmpfs->mount);
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

int cell_private_take(struct cell *cell)
{
	struct cell_privates *privates = cell->maker->privates;
	uint64_t number = cell->request->kept;
	struct cell_private *tmpfs = number > 0 ? find(list_of(privates, number), number) : NULL;
	struct owner owner = owner_of(cell);

	if (!tmpfs)
		return 0;
	if (is_same(&tmpfs->owner, &owner))
		cell->kept = TAKE_FD(tmpfs->mount);
	privates->n_kept--;
	forget(tmpfs);
	return 0;
}

int cell_private_give(struct cell *cell)
{
	int r = cell->kept < 0 ? 0 : pass_mount(cell->private, cell->kept);

	close_fd(&cell->kept);
	/* The process has ended, and the spawner has not reaped it yet. */
	return r == -EPIPE || r == -ECONNRESET ? -ESRCH : r;
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
		.socket = TAKE_FD(cell->private),
		.mount = -1};
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

void cell_privates_reaped(struct cell_privates *privates, pid_t pid)
{
	struct cell_private *tmpfs;
	int fd;

	LIST_FOREACH (tmpfs, &privates->live, entry)
		if (tmpfs->worker == pid)
			break;
	if (!tmpfs)
		return;
	fd = privates->n_kept < LIMIT_WORKSPACES ? take_mount(tmpfs->socket) : -EMFILE;
	if (fd >= 0 && !is_bounded(tmpfs, fd)) {
		close(fd);
		fd = -EBADMSG;
	}
	if (fd < 0) {
		forget(tmpfs);
		return;
	}
	tmpfs->mount = fd;
	tmpfs->worker = 0;
	close_fd(&tmpfs->socket);
	LIST_REMOVE(tmpfs, entry);
	LIST_INSERT_HEAD(list_of(privates, tmpfs->number), tmpfs, entry);
	privates->n_kept++;
}

void cell_privates_let_go(struct cell_privates *privates, uint64_t number)
{
	struct cell_private *tmpfs = find(list_of(privates, number), number);

	if (tmpfs)
		privates->n_kept--;
	else
		tmpfs = find(&privates->live, number);
	if (tmpfs)
		forget(tmpfs);
}
