// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner and in its child, the holder, which looks at no file of the template. */
#include "worker/spawner/job/template_holder.h"

#include "common/cleanup.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/spawner/job/tree_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define INERT (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

enum { GIVE_TO_FILL = 'w', HALVE = 'h', FREEZE = 'f', GIVE_CLONE = 'm' };

struct holder {
	struct giver_child child; /* first: the context of its steps */
	const struct template_holder_start *start;
	int mount;
};

static int become_owner(void *context)
{
	static const cap_value_t kept[] = {CAP_SYS_ADMIN};

	(void)context;
	return giver_become_owner(true, kept, ARRAY_SIZE(kept));
}

/*
 * A tmpfs has attributes of the user's from Linux 6.6 on, without which the copy would lack what
 * the template has. Its ids can be mapped from 6.3 on.
 */
static int has_attributes(int mount)
{
	static const char name[] = "user.cloister";
	_cleanup_close_ int root = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	if (fsetxattr(root, name, "", 0, 0) < 0 || fremovexattr(root, name) < 0)
		return errno == EOPNOTSUPP ? -ENOSYS : -errno;
	return 0;
}

static int make_memory(void *context)
{
	struct holder *holder = context;
	const struct template_holder_start *start = holder->start;
	int r = mount_new_tmpfs(0700, start->bytes, start->inodes, INERT, &holder->mount);

	if (r == 0)
		r = mount_attach(holder->mount, AT_FDCWD, "/");
	if (r == 0)
		r = has_attributes(holder->mount);
	return r == 0 && fchdir(holder->mount) < 0 ? -errno : r;
}

static const struct setup_step steps[] = {
	{"wait for its ids", giver_await_maps},
	{"become cloister's own id", become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
	{"make mounts private", setup_private_mounts},
	{"make a tmpfs for the template", make_memory},
	{"leave the host's root", setup_leave_host},
};

static uint64_t size_of(const struct statfs *status)
{
	return (uint64_t)status->f_blocks * (uint64_t)status->f_bsize;
}

static int halve(int mount)
{
	struct statfs status;
	uint64_t taken;

	if (fstatfs(mount, &status) < 0)
		return -errno;
	taken = tree_copy_taken(&status);
	if (taken >= size_of(&status))
		return -ENOSPC;
	return mount_resize_tmpfs(mount, taken + (size_of(&status) - taken) / 2);
}

static int give_held_template(struct giver_child *child, char what, int *ret_tree)
{
	const struct holder *holder = (const struct holder *)child;

	switch (what) {
	case GIVE_TO_FILL:
		return mount_clone(holder->mount, "", INERT, ret_tree);
	case HALVE:
		return halve(holder->mount);
	case FREEZE:
		return mount_freeze(holder->mount);
	default:
		return mount_clone(holder->mount, "", INERT | MOUNT_ATTR_RDONLY, ret_tree);
	}
}

int template_holder_start(const struct template_holder_start *start, struct giver *ret,
	char ret_step[GIVER_STEP_BYTES])
{
	struct holder holder = {.child = {.name = "cloister-memory",
					.steps = steps,
					.n_steps = ARRAY_SIZE(steps),
					.give = give_held_template},
		.start = start,
		.mount = -1};

	snprintf(ret_step, GIVER_STEP_BYTES, "start a holder of the template");
	return giver_start(&holder.child, start->map, start->context, ret, ret_step);
}

int template_holder_fill(const struct giver *holder, int *ret_tree)
{
	return giver_ask(holder, GIVE_TO_FILL, ret_tree);
}

int template_holder_halve(const struct giver *holder, uint64_t *ret_bytes)
{
	_cleanup_close_ int tree = -1;
	struct statfs status;
	int r = giver_ask(holder, HALVE, NULL);

	if (r == 0)
		r = template_holder_clone(holder, &tree);
	if (r < 0)
		return r;
	if (fstatfs(tree, &status) < 0)
		return -errno;
	*ret_bytes = size_of(&status);
	return 0;
}

int template_holder_freeze(const struct giver *holder)
{
	return giver_ask(holder, FREEZE, NULL);
}

int template_holder_clone(const struct giver *holder, int *ret_tree)
{
	return giver_ask(holder, GIVE_CLONE, ret_tree);
}
