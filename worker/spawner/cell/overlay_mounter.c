// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child, the overlay mounter, which executes no program and trusts
 * the spawner. The contents of the layers are hostile; the kernel alone looks at them. mount(2).
 */
#include "worker/spawner/cell/overlay_mounter.h"

#include "common/cleanup.h"
#include "worker/confine.h"
#include "worker/mounts.h"
#include "worker/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define LAYER_BYTES   sizeof("l/999999999-999999999/u:")
#define OPTIONS_BYTES (256 + LIMIT_LAYERS * LAYER_BYTES)
/* The overlay mounter's own directories: five, and two for each layer. */
#define ROOM_BYTES  (256 * KIB)
#define ROOM_INODES (8 + 2 * LIMIT_LAYERS)

/* Nothing in a layer leads to another place. */
#define OVERLAY_OPTIONS "userxattr,index=off,metacopy=off,redirect_dir=nofollow"

#define VIEW_ATTRIBUTES \
	(MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* Requests of the spawner to an overlay mounter, one byte each. */
enum { GIVE_MOUNT = 'm', GIVE_VIEWS = 'v' };

/* The overlay mounter's side. */

struct mounter {
	struct giver_child child; /* first: the context of its steps */
	const struct overlay_mounter_start *start;
	int base, layers, template;
	/* attached in the overlay mounter's mount namespace: the overlay, and the directory with
	 * LAYERS_VIEW
	 */
	int mount, views;
};

/* The overlay keeps the credentials of the moment in which it is mounted. */
static int become_owner(void *context)
{
	static const cap_value_t kept[] = {CAP_SYS_ADMIN, CAP_DAC_OVERRIDE};
	const struct mounter *mounter = context;

	return giver_become_owner(mounter->start->drops_groups, kept, ARRAY_SIZE(kept));
}

static int attach_layer(int mount_fd, int room, const char *name)
{
	_cleanup_close_ int point = -1;
	int r = mount_make_directory(room, name, 0700, &point);

	return r < 0 ? r : mount_attach_over(mount_fd, point);
}

/* The layers must be mounts of the mounter's own mount namespace. */
static int make_overlay_root(void *context)
{
	const struct mounter *mounter = context;
	_cleanup_close_ int room = -1, point = -1;
	int r = mount_new_tmpfs(0700, ROOM_BYTES, ROOM_INODES,
		MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &room);

	if (r == 0)
		r = mount_attach(room, AT_FDCWD, "/");
	if (r == 0)
		r = attach_layer(mounter->base, room, "b");
	if (r == 0)
		r = attach_layer(mounter->layers, room, "l");
	if (r == 0 && mounter->template >= 0)
		r = attach_layer(mounter->template, room, "t");
	if (r == 0)
		r = mount_make_directory(room, "o", 0700, &point);
	close_fd(&point);
	if (r == 0)
		r = mount_make_directory(room, "e", 0700, &point);
	return r == 0 && fchdir(room) < 0 ? -errno : r;
}

/* Writes the options of the layers up to the one with the index @top, which is the last lower one.
 */
static int write_lower(const struct mounter *mounter, size_t top, char *ret)
{
	const uint32_t *numbers = mounter->start->stack->numbers;
	int n = snprintf(ret, OPTIONS_BYTES, OVERLAY_OPTIONS ",lowerdir=");

	for (size_t i = top; i > 0; i--)
		n += snprintf(ret + n, OPTIONS_BYTES - (size_t)n, "l/%u-%u/u:", numbers[i],
			numbers[i - 1]);
	return n +
	       snprintf(ret + n, OPTIONS_BYTES - (size_t)n, mounter->template >= 0 ? "b:t" : "b");
}

/*
 * If the kernel cannot make its directory in the work directory, it mounts an overlay that cannot
 * be written, and says nothing. The workspace's id may have no room there.
 */
static int check_writable(const struct mounter *mounter, const uint32_t *top)
{
	char path[LAYER_BYTES + sizeof("/try")];
	struct statvfs status;

	if (fstatvfs(mounter->mount, &status) < 0)
		return -errno;
	if (!(status.f_flag & ST_RDONLY))
		return 0;
	snprintf(path, sizeof(path), "l/%u-%u/w/try", top[0], top[-1]);
	if (mkdir(path, 0700) < 0)
		return -errno;
	(void)rmdir(path);
	return -EROFS;
}

static int mount_layers(void *context)
{
	struct mounter *mounter = context;
	const struct layer_stack *stack = mounter->start->stack;
	const uint32_t *top = &stack->numbers[stack->count - 1];
	char options[OPTIONS_BYTES];
	int n = write_lower(mounter, stack->count - 2, options);

	/* The upper directory and the work directory must be in one mount. */
	snprintf(options + n, OPTIONS_BYTES - (size_t)n, ",upperdir=l/%u-%u/u,workdir=l/%u-%u/w",
		top[0], top[-1], top[0], top[-1]);
	if (mount("cloister", "o", "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -errno;
	mounter->mount = open("o", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return mounter->mount < 0 ? -errno : check_writable(mounter, top);
}

/* What the layer with the index @i has, without those below it. */
static int show_upper(const struct mounter *mounter, size_t i)
{
	const uint32_t *number = &mounter->start->stack->numbers[i];
	char name[sizeof(LAYERS_UPPER "4294967295")], path[LAYER_BYTES] = "b";
	_cleanup_close_ int tree = -1;
	int r;

	snprintf(name, sizeof(name), LAYERS_UPPER "%u", number[0]);
	if (i > 0)
		snprintf(path, sizeof(path), "l/%u-%u/u", number[0], number[-1]);
	r = mount_clone(AT_FDCWD, path, 0, &tree);
	return r < 0 ? r : attach_layer(tree, mounter->views, name);
}

static int show_view(const struct mounter *mounter, size_t i)
{
	const struct layer_stack *stack = mounter->start->stack;
	char name[sizeof("d/" LAYERS_VIEW "4294967295")], options[OPTIONS_BYTES];

	/*
	 * An overlay that cannot be written needs two layers. Layer 0 must be the lowest, as it is
	 * in the workspace's own overlay, which takes no attribute of it for a whiteout.
	 */
	if (i == 0 && mounter->template <0)
		snprintf(options, sizeof(options), OVERLAY_OPTIONS ",lowerdir=e:b");
	else
		(void)write_lower(mounter, i, options);
	snprintf(name, sizeof(name), "d/" LAYERS_VIEW "%u", stack->numbers[i]);
	return mkdir(name, 0700) < 0 || mount("cloister", name, "overlay",
						MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0
		       ? -errno
		       : 0;
}

/* A diff compares the present with what the kernel makes of the layers, and believes no layer. */
static int show_views(void *context)
{
	struct mounter *mounter = context;
	size_t top = mounter->start->stack->count - 1;
	struct stat base;
	int r;

	/* "e" is the root of the lowest view. */
	r = stat("b", &base) < 0 || chmod("e", base.st_mode & 07777) < 0 || mkdir("d", 0700) < 0
		    ? -errno
		    : 0;
	if (r == 0)
		mounter->views = open("d", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0 && mounter->views < 0)
		r = -errno;
	for (size_t i = 0; r == 0 && i <= top; i++)
		r = show_upper(mounter, i);
	for (size_t i = 0; r == 0 && i < top; i++)
		r = show_view(mounter, i);
	return r;
}

/* The overlay has mounts of its own of its layers. */
static int leave_layers(void *context)
{
	struct mounter *mounter = context;

	close_fd(&mounter->base);
	close_fd(&mounter->layers);
	if (mounter->template >= 0 && umount2("t", MNT_DETACH) < 0)
		return -errno;
	close_fd(&mounter->template);
	return umount2("b", MNT_DETACH) < 0 || umount2("l", MNT_DETACH) < 0 ? -errno : 0;
}

static int keep_sys_admin_only(void *context)
{
	static const cap_value_t kept[] = {CAP_SYS_ADMIN};

	(void)context;
	return confine_keep_capabilities(kept, ARRAY_SIZE(kept));
}

static const struct setup_step steps[] = {
	{"wait for its ids", giver_await_maps},
	{"become the workspace's id", become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
	{"make mounts private", setup_private_mounts},
	{"attach the workspace's layers", make_overlay_root},
	{"mount the workspace's layers", mount_layers},
	{"mount the workspace's checkpoints", show_views},
	{"leave the layers", leave_layers},
	/* A mount of the host's must not live as long as the cell does. */
	{"leave the host's root", setup_leave_host},
	{"keep CAP_SYS_ADMIN only", keep_sys_admin_only},
};

static int give_overlay(struct giver_child *child, char what, int *ret_tree)
{
	const struct mounter *mounter = (const struct mounter *)child;

	return what == GIVE_VIEWS ? mount_clone(mounter->views, "", VIEW_ATTRIBUTES, ret_tree)
				  : mount_clone(mounter->mount, "", 0, ret_tree);
}

/* The spawner's side. */

int overlay_mounter_start(const struct overlay_mounter_start *start, struct giver *ret,
	char ret_step[GIVER_STEP_BYTES])
{
	struct mounter mounter = {
		.child = {.forked = {.kept = {start->base, start->layers, start->template},
				  .n_kept = 3},
			.name = "cloister-layers",
			.steps = steps,
			.n_steps = ARRAY_SIZE(steps),
			.give = give_overlay},
		.start = start,
		.base = start->base,
		.layers = start->layers,
		.template = start->template,
		.mount = -1,
		.views = -1};

	snprintf(ret_step, GIVER_STEP_BYTES, "start an overlay mounter of the workspace's layers");
	return giver_start(&mounter.child, start->map, start->context, ret, ret_step);
}

int overlay_mounter_clone(const struct giver *mounter, int *ret_tree)
{
	return giver_ask(mounter, GIVE_MOUNT, ret_tree);
}

int overlay_mounter_views(const struct giver *mounter, int *ret_tree)
{
	return giver_ask(mounter, GIVE_VIEWS, ret_tree);
}
