// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in path resolvers, children of the spawner. Paths come from clients; they go to openat2(2)
 * and are not interpreted otherwise. From a file system it believes only the type that statfs(2)
 * reports.
 */
#include "worker/spawner/cell/place.h"

#include "common/cleanup.h"
#include "common/fd_path.h"
#include "common/text.h"
#include "worker/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

void place_init(struct place *place)
{
	memset(place, 0, offsetof(struct place, parents));
	place->root = -1;
	for (size_t i = 0; i < PLACE_TREES; i++)
		place->trees[i] = -1;
}

void place_done(struct place *place)
{
	close_fd(&place->root);
	for (size_t i = 0; i < PLACE_TREES; i++)
		close_fd(&place->trees[i]);
}

bool place_is_in(const struct place *place, struct directory_id id)
{
	for (size_t i = 0; i < place->n_parents; i++)
		if (place->parents[i].dev == id.dev && place->parents[i].ino == id.ino)
			return true;
	return false;
}

static bool is_same_directory(const void *context, const struct stat *directory)
{
	const struct stat *as = context;

	return as->st_dev == directory->st_dev && as->st_ino == directory->st_ino;
}

bool place_is_apart(const struct place *place, int managed)
{
	struct stat state;

	if (managed < 0)
		return true;
	return fstatat(managed, "..", &state, 0) == 0 &&
	       !place_is_in(place, (struct directory_id){state.st_dev, state.st_ino}) &&
	       !directory_parents_any(managed, is_same_directory, &place->stat);
}

static void fail_place(struct place *place, int error, const char *step)
{
	place->error = error;
	snprintf(place->step, sizeof(place->step), "%s", step);
}

static void free_capabilities(cap_t *capabilities)
{
	if (*capabilities)
		cap_free(*capabilities);
}

/* Clears or restores the effective capabilities; the permitted ones stay. */
static int set_effective(bool effective)
{
	_cleanup_(free_capabilities) cap_t own = cap_get_proc();
	cap_flag_value_t is_permitted;

	if (!own || cap_clear_flag(own, CAP_EFFECTIVE) < 0)
		return -errno;
	for (cap_value_t c = 0;
		effective && cap_get_flag(own, c, CAP_PERMITTED, &is_permitted) == 0; c++)
		if (is_permitted == CAP_SET && cap_set_flag(own, CAP_EFFECTIVE, 1, &c, CAP_SET) < 0)
			return -errno;
	return cap_set_proc(own) < 0 ? -errno : 0;
}

static int open_from(int base, const char *path, bool below, bool file)
{
	struct open_how how = {.flags = O_PATH | (file ? 0 : O_DIRECTORY) | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | (below ? RESOLVE_BENEATH : RESOLVE_IN_ROOT)};
	int fd = -1;

	/* EAGAIN: a rename happened during the look-up. */
	for (int i = 0; i < LIMIT_OPEN_RETRIES && (i == 0 || errno == EAGAIN) && fd < 0; i++)
		fd = (int)syscall(SYS_openat2, base, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

/* A directory is any other than a layout; a file may be regular only. */
static int find_kind(struct place *place)
{
	if (S_ISREG(place->stat.st_mode))
		place->kind = LOOKED_UP_FILE;
	else if (S_ISDIR(place->stat.st_mode))
		place->kind = faccessat(place->root, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0
				      ? LOOKED_UP_IMAGE
				      : LOOKED_UP_DIRECTORY;
	else
		return -ENOTDIR;
	return 0;
}

void place_look_up(struct place *place, int base, const char *path, bool below, bool file)
{
	int r = set_effective(false);

	if (r == 0)
		place->root = r = open_from(base, *path ? path : ".", below, file);
	if (r >= 0 && fstat(place->root, &place->stat) < 0)
		r = -errno;
	if (r >= 0 && file)
		r = find_kind(place);
	if (r >= 0) {
		place->n_parents =
			directory_parents_list(place->root, place->parents, LIMIT_ROOT_PARENTS);
		place->may_enter =
			faccessat(place->root, "", X_OK, AT_EMPTY_PATH | AT_EACCESS) == 0 ||
			errno != EACCES;
		r = 0;
	}
	if (set_effective(true) < 0)
		_exit(1);
	if (r < 0)
		fail_place(place, r, "look the directory up");
}

/*
 * Whether the kernel itself maintains the file system of @fd, without a server. An unknown type
 * counts as not local, for example FUSE and network file systems. statfs(2)
 */
static bool is_local(int fd)
{
	static const uint32_t local[] = {
		0xef53,     /* ext2, ext3, ext4 */
		0x58465342, /* xfs */
		0x9123683e, /* btrfs */
		0xf2f52010, /* f2fs */
		0x2fc12fc1, /* zfs */
		0xca451a4e, /* bcachefs */
		0x01021994, /* tmpfs */
		0x858458f6, /* ramfs */
		0x794c7630, /* overlay */
		0x3153464a, /* jfs */
		0x52654973, /* reiserfs */
		0x3434,     /* nilfs2 */
	};
	struct statfs status;

	if (fstatfs(fd, &status) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if ((uint32_t)status.f_type == local[i])
			return true;
	return false;
}

static int open_again(struct place *place, int checked, bool file)
{
	char link[64];
	struct stat stat_buf;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", checked);
	n = readlink(link, place->path, sizeof(place->path) - 1);
	if (n < 0)
		return -errno;
	place->path[n] = '\0';
	if (place->path[0] != '/')
		return -EXDEV;
	place->root = mount_open_point(place->path, file ? 0 : O_DIRECTORY);
	if (place->root < 0)
		return -errno;
	if (fstat(checked, &stat_buf) < 0 || fstat(place->root, &place->stat) < 0)
		return -errno;
	return stat_buf.st_dev == place->stat.st_dev && stat_buf.st_ino == place->stat.st_ino
		       ? 0
		       : -ESTALE;
}

/*
 * The worker opens these paths again with its own id. This check reports a missing one before any
 * process is started.
 */
static void find_readonly(struct place *place, const char *readonly)
{
	struct text left = text_from(readonly);
	char path[LIMIT_READONLY_BYTES];

	while (left.len > 0 && place->error == 0) {
		struct text line = text_take(&left, '\n');
		bool is_directory;
		int fd;

		snprintf(path, sizeof(path), "%.*s", (int)line.len, line.data);
		fd = mount_open_shown(path, &is_directory);
		if (fd < 0 && fd != -EACCES) {
			place->error = fd;
			mount_name_shown(place->step, sizeof(place->step), path, fd);
		}
		close_fd(&fd);
	}
}

static int clone_trees(struct place *place)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < PLACE_TREES; i++)
		r = mount_clone(place->root, "", 0, &place->trees[i]);
	return r;
}

/* The directories above a file are those of the directory that it lies in. */
static void list_parents(struct place *place)
{
	_cleanup_close_ int above = -1;
	char parent[PATH_MAX];

	if (!S_ISREG(place->stat.st_mode)) {
		place->n_parents =
			directory_parents_list(place->root, place->parents, LIMIT_ROOT_PARENTS);
		return;
	}
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(place->path, '/') - place->path),
		place->path);
	above = mount_open_point(*parent ? parent : "/", O_DIRECTORY);
	place->n_parents =
		above < 0 ? 0 : directory_parents_list(above, place->parents, LIMIT_ROOT_PARENTS);
}

void place_look_again(struct place *place, int checked, const char *readonly, bool file)
{
	int r = open_again(place, checked, file);

	if (r < 0) {
		close_fd(&place->root);
		fail_place(place, r, "open the workspace's root");
		return;
	}
	list_parents(place);
	place->is_local = is_local(place->root);
	find_readonly(place, readonly);
	if (place->error == 0)
		r = clone_trees(place);
	if (r < 0)
		fail_place(place, r, "clone the workspace's mounts");
}

int place_open(int managed, const char *beside, const char *tenant, const char *name)
{
	_cleanup_free_ char *path = managed < 0 ? NULL : fd_path(managed);
	char *slash = path ? strrchr(path, '/') : NULL;
	char full[PATH_MAX];
	int fd;

	if (!slash)
		return -ENOENT;
	if (beside)
		*slash = '\0';
	if (snprintf(full, sizeof(full), "%s%s%s/%s/%s", path, beside ? "/" : "",
		    beside ? beside : "", tenant, name) >= (int)sizeof(full))
		return -ENAMETOOLONG;
	fd = mount_open_point(full, O_DIRECTORY);
	return fd < 0 ? -errno : fd;
}
