// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/paths.h"
#include "tests/lib/unit.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#define PATHS 32

static struct {
	const char *path, *text;
} paths[PATHS];
static size_t n_paths;

void fake_path_set(const char *path, const char *text)
{
	size_t i = 0;

	if (!path) {
		n_paths = 0;
		return;
	}
	while (i < n_paths && strcmp(paths[i].path, path) != 0)
		i++;
	assert_true(i < PATHS);
	paths[i].path = path;
	paths[i].text = text;
	if (i == n_paths)
		n_paths++;
}

/* Returns a descriptor of the text set for @path, -1 if the file is absent, -2 if it is not faked.
 */
static int open_fake(const char *path)
{
	size_t i = 0;
	int fd;

	while (i < n_paths && strcmp(paths[i].path, path) != 0)
		i++;
	if (i == n_paths)
		return -2;
	if (!paths[i].text) {
		errno = ENOENT;
		return -1;
	}
	fd = memfd_create("fake", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, paths[i].text, strlen(paths[i].text)), strlen(paths[i].text));
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

int open(const char *path, int flags, ...)
{
	int fd = open_fake(path);
	mode_t mode = 0;
	va_list rest;

	if (fd > -2)
		return fd;
	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(rest, flags);
		mode = va_arg(rest, mode_t);
		va_end(rest);
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	int fd = open_fake(path);

	if (fd == -2)
		fd = (int)syscall(SYS_openat, AT_FDCWD, path,
			mode[0] == 'r' ? O_RDONLY | O_CLOEXEC : O_WRONLY | O_CREAT | O_CLOEXEC,
			0666);
	return fd < 0 ? NULL : fdopen(fd, mode);
}
