// SPDX-License-Identifier: Apache-2.0
/*
 * Only reads a tree, which is the least that any search of it must do. Each thread takes a
 * directory from a list, reads its names and its regular files into one buffer, and adds its
 * subdirectories to the list. `.git` is left out. usage: bench_read_tree DIRECTORY THREADS
 *
 * Prints the milliseconds, the number of files and the bytes.
 */
#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BATCH_BYTES  65536
#define BUFFER_BYTES (4 << 20)

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	char **paths;
	size_t count, size;
	int busy; /* threads that may still add directories */
} work = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

struct totals {
	size_t files, bytes;
};

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void put(char *path)
{
	pthread_mutex_lock(&work.mutex);
	if (work.count == work.size) {
		work.size = work.size ? 2 * work.size : 1024;
		work.paths = reallocarray(work.paths, work.size, sizeof(*work.paths));
		if (!work.paths)
			err(1, "reallocarray");
	}
	work.paths[work.count++] = path;
	pthread_cond_signal(&work.changed);
	pthread_mutex_unlock(&work.mutex);
}

/* Returns the next directory, or NULL when all have been read. */
static char *take(void)
{
	char *path = NULL;

	pthread_mutex_lock(&work.mutex);
	work.busy--;
	while (work.count == 0 && work.busy > 0)
		pthread_cond_wait(&work.changed, &work.mutex);
	if (work.count > 0) {
		path = work.paths[--work.count];
		work.busy++;
	}
	pthread_cond_broadcast(&work.changed);
	pthread_mutex_unlock(&work.mutex);
	return path;
}

static void read_file(int directory, const char *name, char *buffer, struct totals *totals)
{
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	while ((n = read(fd, buffer, BUFFER_BYTES)) > 0) {
		totals->bytes += (size_t)n;
		if (n < BUFFER_BYTES)
			break;
	}
	close(fd);
	totals->files++;
}

static void visit(int directory, const char *path, const struct dirent64 *entry, char *buffer,
	struct totals *totals)
{
	const char *name = entry->d_name;
	char *child;

	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, ".git") == 0)
		return;
	if (entry->d_type == DT_REG) {
		read_file(directory, name, buffer, totals);
	} else if (entry->d_type == DT_DIR) {
		if (asprintf(&child, "%s/%s", path, name) < 0)
			err(1, "asprintf");
		put(child);
	}
}

static void *read_directories(void *context)
{
	struct totals *totals = context;
	char *buffer = malloc(BUFFER_BYTES), *batch = malloc(BATCH_BYTES), *path;

	if (!buffer || !batch)
		err(1, "malloc");
	while ((path = take())) {
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ssize_t len;

		while (fd >= 0 && (len = getdents64(fd, batch, BATCH_BYTES)) > 0) {
			for (ssize_t at = 0; at < len;) {
				const struct dirent64 *entry = (const void *)(batch + at);

				visit(fd, path, entry, buffer, totals);
				at += entry->d_reclen;
			}
		}
		if (fd >= 0)
			close(fd);
		free(path);
	}
	free(batch);
	free(buffer);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[64];
	struct totals totals[64] = {0}, all = {0};
	int count = argc == 3 ? atoi(argv[2]) : 0;
	double before = now_ms();

	if (count < 1 || count > 64)
		errx(2, "usage: bench_read_tree DIRECTORY THREADS");
	put(strdup(argv[1]));
	work.busy = count;
	for (int i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, read_directories, &totals[i]) != 0)
			errx(1, "pthread_create");
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		all.files += totals[i].files;
		all.bytes += totals[i].bytes;
	}
	printf("%.1f ms, %zu files, %zu bytes\n", now_ms() - before, all.files, all.bytes);
	free(work.paths);
	return 0;
}
