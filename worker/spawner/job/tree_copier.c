// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner and in its child, the copier, which executes no program. mount(2). */
#include "worker/spawner/job/tree_copier.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/mounts.h"
#include "worker/spawner/job/forked.h"
#include "worker/spawner/job/tree_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

struct child {
	struct forked forked;
	const struct tree_copier *copier;
	int from, to; /* in the copier's own root */
};

static int attach_copied_tree(int mount_fd, int room, const char *name, int *ret)
{
	_cleanup_close_ int point = -1;
	int r = mount_make_directory(room, name, 0700, &point);

	if (r == 0)
		r = mount_attach_over(mount_fd, point);
	if (r < 0)
		return r;
	*ret = openat(room, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret < 0 ? -errno : 0;
}

static int make_copier_root(void *context)
{
	static const uint64_t inert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	struct child *child = context;
	_cleanup_close_ int room = -1;
	int r = mount_set(child->copier->from, inert | MOUNT_ATTR_RDONLY);

	if (r == 0)
		r = mount_set(child->copier->to, inert);
	if (r == 0)
		r = mount_new_tmpfs(0755, 16 * KIB, 8, inert, &room);
	if (r == 0)
		r = mount_attach(room, AT_FDCWD, "/");
	if (r == 0)
		r = attach_copied_tree(child->copier->from, room, "from", &child->from);
	if (r == 0)
		r = attach_copied_tree(child->copier->to, room, "to", &child->to);
	return r == 0 && fchdir(room) < 0 ? -errno : r;
}

static const struct setup_step steps[] = {
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
	{"unshare its mount namespace", forked_leave_mounts},
	{"make mounts private", setup_private_mounts},
	{"attach the two trees", make_copier_root},
	{"leave the host's root", setup_leave_host},
	{"become the owner of the copy", forked_become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
};

static int copy_in_copier(void *context)
{
	const struct child *child = context;

	return tree_copy(&(struct tree_copy){child->from, child->to, child->copier->max_bytes,
		child->copier->max_files, child->copier->to_memory});
}

static const struct forked_kind copying = {
	"cloister-copy", steps, ARRAY_SIZE(steps), copy_in_copier};

pid_t tree_copier_start(struct tree_copier *copier)
{
	struct child child = {
		.forked = {.kept = {copier->from, copier->to},
			.n_kept = 2,
			.uid = copier->uid,
			.gid = copier->gid,
			.reads_all = !copier->unprivileged},
		.copier = copier,
		.from = -1,
		.to = -1,
	};
	pid_t pid = forked_start(&copying, &child.forked);

	close_fd(&copier->from);
	close_fd(&copier->to);
	return pid;
}
