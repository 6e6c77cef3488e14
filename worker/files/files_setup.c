// SPDX-License-Identifier: Apache-2.0
/*
 * The set-up of the files process: from a fresh program with the host's root in sight to a process
 * whose root is the workspace and that can only use files. The step list at the end is complete.
 * Nothing is created in the workspace, but for what the root of a fork lacks. mount_namespaces(7),
 * pivot_root(2).
 */
#include "worker/files/files_setup.h"

#include "common/cleanup.h"
#include "common/short_timeslice.h"
#include "common/wire/fixed_fds.h"
#include "common/wire/wire_spawner.h"
#include "worker/confine.h"
#include "worker/files/files_confine.h"
#include "worker/mounts.h"
#include "worker/root_points.h"
#include "worker/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int check_cloisterd_alive(void *context)
{
	(void)context;
	return confine_check_connected(FD_FILES_DOWN);
}

/*
 * On Linux 6.1 /proc/self/fd is the only way to reopen an O_PATH descriptor or to link an O_TMPFILE
 * file. Only this directory of procfs stays reachable, through the descriptor.
 */
static int open_own_proc(void *context)
{
	struct root *root = context;
	int r = mount_new_proc(true, &root->proc_mount);

	if (r < 0)
		return r;
	root->proc_self_fd = openat(root->proc_mount, "self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root->proc_self_fd < 0 ? -errno : 0;
}

static int mount_workspace_as_root(void *context)
{
	int r = mount_confine_tree(FD_FILES_TREE, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);

	(void)context;
	if (r == 0)
		r = mount_attach(FD_FILES_TREE, AT_FDCWD, "/");
	if (r < 0)
		return r;
	return fchdir(FD_FILES_TREE) < 0 ? -errno : 0;
}

/*
 * The worker makes them too, and may come later; they have to be there to be covered. It is the one
 * that tells what is wrong with them.
 */
static int make_points(void *context)
{
	const struct root *root = context;
	char why[1];
	int r = root->is_fork ? root_points_make(FD_FILES_TREE, why, sizeof(why)) : 0;

	return r == -SETUP_UNFIT ? 0 : r;
}

/*
 * In a workspace that is a whole root, commands see /proc and /sys limited by their namespaces. The
 * files process must not see them at all.
 */
static int cover_kernel_directories(void *context)
{
	static const char *const names[] = {"proc", "dev", "sys"};
	const struct root *root = context;

	if (root->visible.len > 1)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_close_ int empty = -1;
		struct stat stat_buf;
		int r;

		r = fstatat(FD_FILES_TREE, names[i], &stat_buf, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
											 : 0;
		if (r == -ENOENT || (r == 0 && !S_ISDIR(stat_buf.st_mode)))
			continue;
		/* A command may have removed the search permission, and may restore it later. */
		if (r < 0)
			return r;
		r = mount_new_tmpfs(0555, 4096, 1, MOUNT_ATTR_RDONLY, &empty);
		if (r == 0)
			r = mount_attach(empty, FD_FILES_TREE, names[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int enter_root(void *context)
{
	struct root *root = context;

	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return -errno;
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	close(FD_FILES_TREE);
	root->fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root->fd < 0 ? -errno : 0;
}

/* They stay detached: nothing of them has a name here. */
static int take_layers(void *context)
{
	struct root *root = context;
	struct stat stat_buf;

	if (fstat(FD_FILES_LAYERS, &stat_buf) < 0)
		return -errno;
	if (S_ISDIR(stat_buf.st_mode))
		root->layers = FD_FILES_LAYERS;
	else
		close(FD_FILES_LAYERS);
	return 0;
}

static int ask_for_short_timeslices(void *context)
{
	(void)context;
	(void)short_timeslice(false);
	return 0;
}

static int drop_files_capabilities(void *context)
{
	(void)context;
	return confine_keep_capabilities(NULL, 0);
}

static int enforce_files_ruleset(void *context)
{
	const struct root *root = context;

	return files_ruleset_enforce(root->fd);
}

int files_setup_ahead(struct root *root, const char **ret_step)
{
	/* Steps that need neither a workspace nor ids. */
	static const struct setup_step steps[] = {
		{"die with the spawner", setup_die_with_parent},
		{"check that cloisterd is alive", check_cloisterd_alive},
		{"be killed early when memory runs out", setup_die_early},
		{"make mounts private", setup_private_mounts},
		{"open a proc file system of its own", open_own_proc},
		{"ask for short CPU time slices", ask_for_short_timeslices},
		{"empty the capability bounding set", setup_empty_bounding_set},
	};

	return setup_run(steps, ARRAY_SIZE(steps), root, ret_step);
}

void files_setup_done(struct root *root)
{
	close_fd(&root->proc_mount);
}

int files_setup(struct root *root, const char **ret_step)
{
	static const struct setup_step steps[] = {
		/* the change of user has cleared the parent-death signal */
		{"die with the spawner", setup_die_with_parent},
		{"check that cloisterd is alive", check_cloisterd_alive},
		{"mount the workspace as the root", mount_workspace_as_root},
		{"make the directories that the root lacks", make_points},
		{"cover /proc, /dev and /sys", cover_kernel_directories},
		{"enter the root", enter_root},
		{"take the layers", take_layers},
		{"drop all capabilities", drop_files_capabilities},
		{"set no_new_privs", setup_no_new_privs},
		{"become non-dumpable", setup_non_dumpable},
		{"apply the Landlock ruleset", enforce_files_ruleset},
	};

	return setup_run(steps, ARRAY_SIZE(steps), root, ret_step);
}
