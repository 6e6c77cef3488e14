/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A directory that exists for one test. Any failure here ends the test program. */

#include <err.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scratch {
	char path[80]; /* a socket in it needs an address, unix(7) */
	int fd;        /* O_PATH */
};

static inline struct scratch scratch_new(void)
{
	const char *base = getenv("TMPDIR");
	struct scratch scratch;

	if (snprintf(scratch.path, sizeof(scratch.path), "%s/cloister-test-XXXXXX",
		    base ? base : "/tmp") >= (int)sizeof(scratch.path))
		errx(1, "TMPDIR is too long");
	if (!mkdtemp(scratch.path))
		err(1, "mkdtemp");
	scratch.fd = open(scratch.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (scratch.fd < 0)
		err(1, "%s", scratch.path);
	return scratch;
}

static inline int scratch_remove_one(
	const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

static inline void scratch_done(struct scratch *scratch)
{
	close(scratch->fd);
	if (nftw(scratch->path, scratch_remove_one, 64, FTW_DEPTH | FTW_PHYS) != 0)
		warn("%s", scratch->path);
}

/* Makes the parent directories of the relative @path. */
static inline void scratch_parents(const struct scratch *scratch, const char *path)
{
	char *copy = strdup(path);

	for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		(void)mkdirat(scratch->fd, copy, 0777);
		*slash = '/';
	}
	free(copy);
}

static inline void scratch_write(
	const struct scratch *scratch, const char *path, const void *data, size_t len)
{
	int fd;

	scratch_parents(scratch, path);
	/* ext4(5) flushes a file that was truncated when it is closed (auto_da_alloc). */
	(void)unlinkat(scratch->fd, path, 0);
	fd = openat(scratch->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		err(1, "%s", path);
	close(fd);
}

/* Makes a file that holds @text. */
static inline void scratch_text(const struct scratch *scratch, const char *path, const char *text)
{
	scratch_write(scratch, path, text, strlen(text));
}

static inline void scratch_link(const struct scratch *scratch, const char *path, const char *target)
{
	scratch_parents(scratch, path);
	if (symlinkat(target, scratch->fd, path) < 0)
		err(1, "%s", path);
}
