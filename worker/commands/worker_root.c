// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker during set-up, with its capabilities and the host's root still in sight. No
 * input comes from a model. A rootfs workspace is hostile, so its directories are opened without
 * following links. mount_namespaces(7), pivot_root(2).
 */
#include "worker/commands/worker_root.h"

#include "common/cleanup.h"
#include "common/directory_parents.h"
#include "common/limits.h"
#include "common/wire/fixed_fds.h"
#include "worker/commands/worker_etc.h"
#include "worker/mounts.h"
#include "worker/pass_mount.h"
#include "worker/root_points.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SYSTEM_ATTRIBUTES    (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define WORKSPACE_ATTRIBUTES (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define PRIVATE_ATTRIBUTES   (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define DEVICE_ATTRIBUTES    (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC)
/* for directories, links and /etc; commands cannot write here */
#define ROOT_BYTES  (1 * MIB)
#define ROOT_INODES 1024

static bool is_rootfs(const struct worker_setup *setup)
{
	return strcmp(setup->visible, "/") == 0;
}

static int take_tree_as_root(struct worker_setup *setup)
{
	int r = mount_confine_tree(FD_WORKER_TREE, WORKSPACE_ATTRIBUTES);

	if (r < 0)
		return r;
	setup->root = fcntl(FD_WORKER_TREE, F_DUPFD_CLOEXEC, FD_WORKER_TREE + 1);
	return setup->root < 0 ? -errno : 0;
}

int root_make(void *context)
{
	struct worker_setup *setup = context;
	int r = is_rootfs(setup) ? take_tree_as_root(setup)
				 : mount_new_tmpfs(0755, ROOT_BYTES, ROOT_INODES,
					   MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &setup->root);

	if (r == 0)
		r = mount_attach(setup->root, AT_FDCWD, "/");
	if (r < 0)
		return r;
	return fchdir(setup->root) < 0 ? -errno : 0;
}

int root_make_points(void *context)
{
	struct worker_setup *setup = context;

	return setup->is_fork ? root_points_make(setup->root, setup->failed, sizeof(setup->failed))
			      : 0;
}

int root_unmake(struct worker_setup *setup)
{
	close_fd(&setup->private);
	/* The unmount includes everything mounted in it. The host's root lies below. */
	if (fchdir(setup->root) < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	close_fd(&setup->root);
	return 0;
}

/*
 * Gives the new root the same link, or a read-only bind mount of the same directory or file, that
 * the host has at /@name, or nothing.
 */
static int show_host_path(int root, int host, const char *name)
{
	_cleanup_close_ int mount_fd = -1, point = -1;
	char target[PATH_MAX];
	struct stat stat_buf;
	ssize_t n;
	int r;

	if (fstatat(host, name, &stat_buf, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISLNK(stat_buf.st_mode)) {
		n = readlinkat(host, name, target, sizeof(target) - 1);
		if (n < 0)
			return -errno;
		target[n] = '\0';
		return symlinkat(target, root, name) < 0 ? -errno : 0;
	}
	r = mount_clone(host, name, SYSTEM_ATTRIBUTES, &mount_fd);
	if (r < 0)
		return r;
	r = S_ISDIR(stat_buf.st_mode) ? mount_make_directory(root, name, 0755, &point)
				      : mount_make_file(root, name, &point);
	return r < 0 ? r : mount_attach_over(mount_fd, point);
}

static int show_host_paths(int root, const char *host_directory, const char *const *names, size_t n)
{
	_cleanup_close_ int host = open(host_directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	if (host < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = show_host_path(root, host, names[i]);
	return r;
}

int root_bind_system(void *context)
{
	static const char *const names[] = {
		"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};
	struct worker_setup *setup = context;

	if (is_rootfs(setup))
		return 0;
	return show_host_paths(setup->root, "/", names, ARRAY_SIZE(names));
}

/*
 * Opens the directory @path (absolute) of the new root. Creates missing directories, except in a
 * rootfs: there root_make_points() has made what is made.
 */
static int open_root_directory(const struct worker_setup *setup, const char *path, int *ret_fd)
{
	_cleanup_close_ int current = fcntl(setup->root, F_DUPFD_CLOEXEC, 0);
	char name[NAME_MAX + 1];

	while (*path) {
		size_t len = strcspn(path, "/");
		int next, r;

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		if (len > 0) {
			snprintf(name, sizeof(name), "%.*s", (int)len, path);
			next = openat(current, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (next < 0 && errno == ENOENT && !is_rootfs(setup)) {
				r = mount_make_directory(current, name, 0755, &next);
				if (r < 0)
					return r;
			}
			if (next < 0)
				return -errno;
			close_fd(&current);
			current = next;
		}
		path += len + strspn(path + len, "/");
	}
	*ret_fd = TAKE_FD(current);
	return 0;
}

/*
 * Shows the world-readable certificates and openssl(1)'s configuration, at the places where
 * distributions keep them. It does not show other files there, such as "private": the user that the
 * worker runs as might be able to read them.
 */
static int show_certificates(const struct worker_setup *setup)
{
	static const struct {
		const char *directory, *name;
	} shown[] = {
		{"/etc/ssl", "certs"},
		{"/etc/ssl", "cert.pem"},
		{"/etc/ssl", "openssl.cnf"},
		{"/etc/pki/tls", "certs"},
		{"/etc/pki/tls", "cert.pem"},
		{"/etc/pki/tls", "openssl.cnf"},
		{"/etc/pki/ca-trust", "extracted"},
		{"/etc/ca-certificates", "extracted"},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(shown); i++) {
		_cleanup_close_ int host =
			open(shown[i].directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
		_cleanup_close_ int directory = -1;

		if (host < 0 || faccessat(host, shown[i].name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = open_root_directory(setup, shown[i].directory, &directory);
		if (r == 0)
			r = show_host_path(directory, host, shown[i].name);
	}
	return r;
}

/*
 * Copies the files of the host's /etc that programs read and that hold no secrets, if everybody may
 * read them: a mount for each would make the start of every command slower. mtab(5) is a link.
 */
static int copy_files(int etc)
{
	static const char *const names[] = {"manpath.config", "magic", "magic.mime", "inputrc",
		"shells", "debian_version", "lsb-release", "timezone", "login.defs", "rpc",
		"networks", "host.conf", "gai.conf", "locale.alias", "xattr.conf", "mke2fs.conf",
		"nanorc", "fpc.cfg", "gprofng.rc", "libaudit.conf", "sensors3.conf", "papersize"};
	_cleanup_close_ int host = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = host < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
		r = etc_copy(host, etc, names[i]);
	if (r == 0 && symlinkat("../proc/self/mounts", etc, "mtab") < 0)
		r = -errno;
	return r;
}

int root_write_etc(void *context)
{
	static const char *const names[] = {"ld.so.cache", "alternatives", "localtime",
		/* what programs look up: getservbyname(3), getprotobyname(3), os-release(5) */
		"services", "protocols", "mime.types", "os-release",
		/* Debian's Java, Maven, PHP and Chromium do not start without these directories. */
		"java-17-openjdk", "java-21-openjdk", "java-25-openjdk", "maven", "php",
		"chromium.d",
		/* Settings of libraries and languages, and names of ip(8): these have no secrets.
		 */
		"fonts", "terminfo", "iproute2", "texmf", "xml", "sgml", "perl", "python3", "R",
		"ImageMagick-6", "ImageMagick-7", "OpenCL", "glvnd", "vim", "emacs", "groff"};
	struct worker_setup *setup = context;
	_cleanup_close_ int etc = -1;
	int r;

	if (is_rootfs(setup))
		return 0;
	r = mount_make_directory(setup->root, "etc", 0755, &etc);
	if (r == 0)
		r = etc_write_synthesised(etc, setup->home, setup->has_network);
	if (r == 0)
		r = show_host_paths(etc, "/etc", names, ARRAY_SIZE(names));
	if (r == 0)
		r = copy_files(etc);
	return r < 0 ? r : show_certificates(setup);
}

int root_show_processors(void *context)
{
	static const char *const names[] = {"cpu"};
	static const char path[] = "/sys/devices/system";
	struct worker_setup *setup = context;
	_cleanup_close_ int system = -1;
	int r;

	if (is_rootfs(setup) || access("/sys/devices/system/cpu", F_OK) < 0)
		return 0;
	r = open_root_directory(setup, path, &system);
	return r < 0 ? r : show_host_paths(system, path, names, ARRAY_SIZE(names));
}

int root_show_nothing(void *context)
{
	static const char *const names[] = {"/sys/block", "/sys/dev/block", "/var/log"};
	struct worker_setup *setup = context;
	_cleanup_close_ int directory = -1, file = -1;
	int r = 0;

	if (is_rootfs(setup))
		return 0;
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		close_fd(&directory);
		r = open_root_directory(setup, names[i], &directory);
	}
	if (r < 0)
		return r;
	file = openat(directory, "wtmp", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	return file < 0 ? -errno : 0;
}

int root_show_packages(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int host = open("/var/lib", O_PATH | O_DIRECTORY | O_CLOEXEC), lib = -1;
	int r;

	if (is_rootfs(setup) || host < 0 || faccessat(host, "dpkg", F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	r = open_root_directory(setup, "/var/lib", &lib);
	return r < 0 ? r : show_host_path(lib, host, "dpkg");
}

/*
 * Covers the directory @path of the root with the subdirectory @name of the private tmpfs at the
 * descriptor @private.
 */
static int attach_private(const struct worker_setup *setup, int private, const char *name,
	mode_t mode, const char *path)
{
	_cleanup_close_ int directory = -1, mount_fd = -1, target = -1;
	int r = mount_make_directory(private, name, mode, &directory);

	if (r < 0)
		return r;
	if (fchmodat(private, name, mode, 0) < 0)
		return -errno;
	r = mount_clone(private, name, 0, &mount_fd);
	if (r < 0)
		return r;
	r = open_root_directory(setup, path, &target);
	/* A rootfs that lacks the directory goes without it. */
	if (r == -ENOENT && is_rootfs(setup))
		return 0;
	return r < 0 ? r : mount_attach_over(mount_fd, target);
}

/*
 * Opens the regular file @path (absolute) of the new root as a mount point. Creates a missing one
 * and its directories. The file may lie in a directory of the host that is shown already.
 */
static int open_root_file(const struct worker_setup *setup, const char *path, int *ret_fd)
{
	const char *name = strrchr(path, '/') + 1;
	_cleanup_close_ int parent = -1, fd = -1;
	char directory[LIMIT_READONLY_BYTES];
	struct directory_known known;
	int r;

	snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);
	r = open_root_directory(setup, directory, &parent);
	if (r < 0)
		return r;
	fd = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? mount_make_file(parent, name, ret_fd) : -errno;
	r = directory_known(fd, &known);
	if (r == 0 && !S_ISREG(known.mode))
		r = -EEXIST;
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

/* Runs for no rootfs, in which mount points could not be created. */
static int bind_readonly(const struct worker_setup *setup, const char *path)
{
	_cleanup_close_ int mount_fd = -1, target = -1;
	bool is_directory;
	_cleanup_close_ int host = mount_open_shown(path, &is_directory);
	int r;

	if (host < 0)
		return host;
	r = mount_clone(host, "", SYSTEM_ATTRIBUTES, &mount_fd);
	if (r == 0)
		r = is_directory ? open_root_directory(setup, path, &target)
				 : open_root_file(setup, path, &target);
	return r < 0 ? r : mount_attach_over(mount_fd, target);
}

int root_bind_readonly(void *context)
{
	struct worker_setup *setup = context;
	struct text left = text_from(setup->readonly);
	char path[LIMIT_READONLY_BYTES];
	int r = 0;

	while (r == 0 && left.len > 0 && !is_rootfs(setup)) {
		struct text line = text_take(&left, '\n');

		snprintf(path, sizeof(path), "%.*s", (int)line.len, line.data);
		r = bind_readonly(setup, path);
		if (r < 0)
			mount_name_shown(setup->failed, sizeof(setup->failed), path, r);
	}
	return r;
}

/* A rootfs has no directory for a kept home, and none is made in it. */
static int make_home_in_run(int private)
{
	_cleanup_close_ int run =
		openat(private, "run", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	_cleanup_close_ int home = -1;

	return run < 0 ? -errno : mount_make_directory(run, "home", 0755, &home);
}

/*
 * One tmpfs, and so one size limit, for everything that commands can write outside their workspace.
 * It is mounted on /dev first; its parts are bound to their places, and the real /dev covers it
 * afterwards.
 */
int root_make_private(void *context)
{
	static const struct {
		const char *name;
		mode_t mode;
		const char *path;
	} parts[] = {
		{"tmp", 01777, "/tmp"},
		{"run", 0755, "/run"},
		{"var-tmp", 01777, "/var/tmp"},
	};
	struct worker_setup *setup = context;
	_cleanup_close_ int private = -1, dev = -1;
	int r = mount_new_tmpfs(
		0755, setup->tmp_bytes, LIMIT_TMP_INODES, PRIVATE_ATTRIBUTES, &private);

	if (r == 0)
		r = open_root_directory(setup, "/dev", &dev);
	if (r == 0)
		r = mount_attach_over(private, dev);
	/* A rootfs keeps its own /var/tmp. */
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts) - is_rootfs(setup); i++)
		r = attach_private(setup, private, parts[i].name, parts[i].mode, parts[i].path);
	if (r == 0 && is_rootfs(setup) && setup->keeps_home)
		r = make_home_in_run(private);
	if (r == 0)
		r = attach_private(setup, private, "home", 0755, setup->home);
	if (r == 0)
		setup->private = TAKE_FD(private);
	return r;
}

int root_bound_private(void *context)
{
	struct worker_setup *setup = context;

	return setup->ahead ? mount_resize_tmpfs(setup->private, setup->tmp_bytes) : 0;
}

/*
 * The content is hostile, because commands of earlier cells have written it; the top and its
 * directories they could not reach. The new tmpfs stays below. Nothing is mounted below the kept
 * one's own root while its parts are cloned: its place is /tmp, which the last part covers.
 */
static int attach_kept(struct worker_setup *setup, int kept)
{
	static const struct {
		const char *name;
		const char *path; /* NULL: the home */
		mode_t mode;
		bool in_rootfs; /* a rootfs keeps its own /var/tmp */
	} parts[] = {
		{"run", "/run", 0755, true},
		{"var-tmp", "/var/tmp", 01777, false},
		{"home", NULL, 0755, true},
		{"shm", "/dev/shm", 01777, true},
		{"tmp", "/tmp", 01777, true},
	};
	_cleanup_close_ int target = -1;
	int r = mount_confine_tree(kept, PRIVATE_ATTRIBUTES);

	if (r == 0)
		r = open_root_directory(setup, "/tmp", &target);
	if (r == 0)
		r = mount_attach_over(kept, target);
	if (r == 0 && is_rootfs(setup) && setup->keeps_home)
		r = make_home_in_run(kept);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
		if (parts[i].in_rootfs || !is_rootfs(setup))
			r = attach_private(setup, kept, parts[i].name, parts[i].mode,
				parts[i].path ? parts[i].path : setup->home);
	return r;
}

int root_attach_kept(void *context)
{
	struct worker_setup *setup = context;
	int r, kept = take_mount(FD_WORKER_PRIVATE);

	if (kept < 0)
		return kept == -EAGAIN ? 0 : kept;
	r = attach_kept(setup, kept);
	if (r == 0) {
		close_fd(&setup->private);
		setup->private = TAKE_FD(kept);
	}
	close_fd(&kept);
	/* A rootfs without /tmp gets a new one for each cell. */
	return r == -ENOENT && is_rootfs(setup) ? 0 : r;
}

/* Without this second mount the files go with the cell, as they would without a spawner. */
int root_share_private(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int mount_fd = -1;
	int r = mount_clone_alone(setup->private, &mount_fd);

	if (r == 0)
		(void)pass_mount(FD_WORKER_PRIVATE, mount_fd);
	close_fd(&setup->private);
	close(FD_WORKER_PRIVATE);
	return r;
}

/*
 * The home is hostile, because commands of earlier cells have written it. No name is looked up in
 * it, neither here nor later: HOME never contains the workspace (choose_home).
 */
int root_attach_home(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int target = -1;
	int r = 0;

	if (setup->keeps_home) {
		r = mount_confine_tree(FD_WORKER_HOME, WORKSPACE_ATTRIBUTES);
		if (r == 0)
			r = open_root_directory(setup, setup->home, &target);
		if (r == 0)
			r = mount_attach_over(FD_WORKER_HOME, target);
		/* A rootfs that lacks /run goes without a home. */
		if (r == -ENOENT && is_rootfs(setup))
			r = 0;
	}
	close(FD_WORKER_HOME);
	return r;
}

static int bind_devices(int dev)
{
	static const char *const names[] = {"null", "zero", "full", "random", "urandom", "tty"};
	_cleanup_close_ int host = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = host < 0 ? -errno : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
		_cleanup_close_ int node = -1, point = -1;

		r = mount_clone(host, names[i], DEVICE_ATTRIBUTES, &node);
		if (r == 0)
			r = mount_make_file(dev, names[i], &point);
		if (r == 0)
			r = mount_attach_over(node, point);
	}
	return r;
}

static int link_devices(int dev)
{
	static const char *const links[][2] = {
		{"fd", "/proc/self/fd"},
		{"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"},
		{"ptmx", "pts/ptmx"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		if (symlinkat(links[i][1], dev, links[i][0]) < 0)
			return -errno;
	return 0;
}

/* @shm is the part of the private tmpfs for /dev/shm, which the new /dev covers. */
static int fill_dev(int dev, int shm)
{
	_cleanup_close_ int pts = -1, directory = -1, shm_directory = -1;
	int r = bind_devices(dev);

	if (r == 0)
		r = link_devices(dev);
	if (r == 0)
		r = mount_new_devpts(LIMIT_TERMINALS, &pts);
	if (r == 0)
		r = mount_make_directory(dev, "pts", 0755, &directory);
	if (r == 0)
		r = mount_attach_over(pts, directory);
	if (r == 0)
		r = mount_make_directory(dev, "shm", 01777, &shm_directory);
	if (r == 0)
		r = mount_attach_over(shm, shm_directory);
	/*
	 * The directory belongs to the commands' id: without the read-only flag a command could
	 * replace its links for the next command.
	 */
	return r < 0 ? r : mount_set(dev, MOUNT_ATTR_RDONLY);
}

int root_make_dev(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int private = -1, shm_directory = -1, shm = -1, dev = -1, target = -1;
	int r = open_root_directory(setup, "/dev", &private);

	if (r == 0)
		r = mount_make_directory(private, "shm", 01777, &shm_directory);
	if (r == 0 && fchmodat(private, "shm", 01777, 0) < 0)
		r = -errno;
	if (r == 0)
		r = mount_clone(private, "shm", 0, &shm);
	if (r == 0)
		r = mount_new_tmpfs(0755, ROOT_BYTES, ROOT_INODES, DEVICE_ATTRIBUTES, &dev);
	if (r == 0)
		r = open_root_directory(setup, "/dev", &target);
	if (r == 0)
		r = mount_attach_over(dev, target);
	return r < 0 ? r : fill_dev(dev, shm);
}

int root_mount_proc(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int proc = -1, target = -1;
	int r = mount_new_proc(false, &proc);

	if (r == 0)
		r = open_root_directory(setup, "/proc", &target);
	return r < 0 ? r : mount_attach_over(proc, target);
}

/*
 * Whether @path lies strictly below @directory. Stores the length of the first component below it.
 */
static bool lies_below(const char *path, const char *directory, size_t *ret_first)
{
	size_t len = strlen(directory);

	if (strncmp(path, directory, len) != 0 || path[len] != '/' || path[len + 1] == '\0')
		return false;
	*ret_first = strcspn(path + len + 1, "/");
	return true;
}

/*
 * If the visible path lies in a tmpfs that commands may write, mounts a read-only tmpfs on its
 * first component there. Otherwise a command could rename the parent directories of the workspace.
 * Returns that mount in @ret_pin, or -1 if none is needed.
 */
static int pin_first_component(const struct worker_setup *setup, int *ret_pin)
{
	const char *const writable[] = {"/tmp", "/run", "/var/tmp", "/dev/shm", setup->home};
	_cleanup_close_ int parent = -1, directory = -1, pin = -1;
	char name[NAME_MAX + 1];
	size_t first;

	for (size_t i = 0; i < ARRAY_SIZE(writable); i++) {
		const char *below = setup->visible + strlen(writable[i]) + 1;
		int r;

		if (!lies_below(setup->visible, writable[i], &first))
			continue;
		if (below[first] == '\0' || first > NAME_MAX)
			/* the component is the workspace itself and becomes a mount point anyway */
			return 0;
		snprintf(name, sizeof(name), "%.*s", (int)first, below);
		r = open_root_directory(setup, writable[i], &parent);
		if (r == 0)
			r = mount_make_directory(parent, name, 0755, &directory);
		if (r == 0)
			r = mount_new_tmpfs(
				0755, ROOT_BYTES, ROOT_INODES, PRIVATE_ATTRIBUTES, &pin);
		if (r == 0)
			r = mount_attach_over(pin, directory);
		if (r < 0)
			return r;
		*ret_pin = TAKE_FD(pin);
		return 0;
	}
	return 0;
}

int root_attach_workspace(void *context)
{
	struct worker_setup *setup = context;
	_cleanup_close_ int pin = -1, target = -1;
	int r;

	if (is_rootfs(setup)) {
		close(FD_WORKER_TREE);
		return 0;
	}
	r = mount_confine_tree(FD_WORKER_TREE, WORKSPACE_ATTRIBUTES);
	if (r == 0)
		r = pin_first_component(setup, &pin);
	if (r == 0)
		r = open_root_directory(setup, setup->visible, &target);
	if (r == 0)
		r = mount_attach_over(FD_WORKER_TREE, target);
	if (r == 0 && pin >= 0)
		r = mount_set(pin, MOUNT_ATTR_RDONLY);
	close(FD_WORKER_TREE);
	return r;
}

int root_enter(void *context)
{
	(void)context;
	/*
	 * The old root is now mounted over the new one. It can only be reached by ".." at the top,
	 * and no such path is used until root_leave_host().
	 */
	return syscall(SYS_pivot_root, ".", ".") < 0 || chdir("/") < 0 ? -errno : 0;
}

int root_leave_host(void *context)
{
	(void)context;
	return umount2("/", MNT_DETACH) < 0 ? -errno : 0;
}

int root_make_read_only(void *context)
{
	struct worker_setup *setup = context;
	int r = is_rootfs(setup) ? 0 : mount_set(setup->root, MOUNT_ATTR_RDONLY);

	close_fd(&setup->root);
	return r;
}
