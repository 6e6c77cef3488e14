/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For tests of tree_walk's rules: sets of paths, walks of a scratch directory, and git in it. */

#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"
#include "worker/files/walk/tree_walk.h"

#include <dirent.h>
#include <spawn.h>
#include <sys/mman.h>

/* A set of paths, each with a NUL at its end. */
struct paths {
	char *data;
	size_t len;
	FILE *stream;
};

static inline void paths_open(struct paths *paths)
{
	paths->stream = open_memstream(&paths->data, &paths->len);
	assert_non_null(paths->stream);
}

static inline void paths_add(struct paths *paths, const char *path)
{
	fwrite(path, 1, strlen(path) + 1, paths->stream);
}

static inline int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns one path a line, in byte order. */
static inline char *paths_sorted(struct paths *paths)
{
	struct paths sorted;
	static char *list[65536];
	size_t count = 0;

	if (paths->stream)
		fclose(paths->stream);
	for (size_t at = 0; at < paths->len; at += strlen(paths->data + at) + 1)
		list[count++] = paths->data + at;
	assert_true(count < ARRAY_SIZE(list));
	qsort(list, count, sizeof(*list), compare_strings);
	paths_open(&sorted);
	for (size_t i = 0; i < count; i++)
		fprintf(sorted.stream, "%s\n", list[i]);
	fclose(sorted.stream);
	free(paths->data);
	return sorted.data;
}

struct collection {
	struct paths kept;   /* visited by the walk, without directories */
	struct paths all;    /* visited by a walk without rules, except .git */
	struct paths visits; /* visited by a walk with rules */
};

static inline int collect(const struct walk_entry *entry, void *context)
{
	struct collection *collection = context;

	paths_add(&collection->visits, entry->path.data);
	if (entry->type != DT_DIR)
		paths_add(&collection->kept, entry->path.data);
	return 0;
}

static inline bool is_git_path(const char *path)
{
	size_t len = strlen(path);

	return strstr(path, ".git/") || (len >= 4 && strcmp(path + len - 4, ".git") == 0);
}

static inline int collect_all(const struct walk_entry *entry, void *context)
{
	struct collection *collection = context;

	if (!is_git_path(entry->path.data))
		paths_add(&collection->all, entry->path.data);
	return 0;
}

static inline void walk_scratch(const struct scratch *scratch, const char *path, walk_visitor visit,
	bool gitignore, void *context)
{
	const struct root root = {
		.fd = scratch->fd, .proc_self_fd = -1, .visible = text_from(scratch->path)};
	struct walk walk = {
		.root = &root,
		.path = text_from(path),
		.recursive = true,
		.gitignore = gitignore,
		.visit = visit,
		.context = context,
	};
	_cleanup_close_ int fd = openat(scratch->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk_end end;

	assert_true(fd >= 0);
	assert_int_equal(tree_walk(&walk, fd, &end), 0);
	assert_false(end.truncated);
	assert_int_equal(end.unreadable, 0);
}

/* Runs git in @scratch without any user's configuration. @input is its standard input. */
static inline struct paths run_git(
	const struct scratch *scratch, const char *const arguments[], const struct paths *input)
{
	const char *const environment[] = {"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"HOME=/nonexistent", "PATH=/usr/bin:/bin", NULL};
	const char *argv[16] = {"git", "-C", scratch->path};
	posix_spawn_file_actions_t actions;
	FILE *in = fdopen(memfd_create("in", MFD_CLOEXEC), "w+");
	FILE *out = fdopen(memfd_create("out", MFD_CLOEXEC), "w+");
	struct paths paths = {0};
	int status;
	pid_t pid;

	for (size_t i = 0; arguments[i]; i++)
		argv[3 + i] = arguments[i];
	if (input)
		fwrite(input->data, 1, input->len, in);
	rewind(in);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(in), 0);
	posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
	if (posix_spawnp(&pid, "git", &actions, NULL, (char **)argv, (char **)environment) != 0)
		pid = -1;
	posix_spawn_file_actions_destroy(&actions);
	if (pid > 0)
		waitpid(pid, &status, 0);
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) <= 1) {
		fseek(out, 0, SEEK_END);
		paths.len = (size_t)ftell(out);
		paths.data = calloc(1, paths.len + 1);
		rewind(out);
		assert_int_equal(fread(paths.data, 1, paths.len, out), paths.len);
	}
	fclose(in);
	fclose(out);
	return paths;
}

/* Whether a walk of @path keeps the files that git lists there: tracked, or not ignored. */
static inline bool keeps_as_git_lists_in(const struct scratch *scratch, const char *path)
{
	static const char *const list[] = {
		"ls-files", "-z", "-o", "-c", "--exclude-standard", NULL};
	const bool is_root = strcmp(path, ".") == 0;
	struct scratch listed_in = {.fd = scratch->fd};
	struct collection collection = {0};
	struct paths listed, git_kept = {0};
	_cleanup_free_ char *kept = NULL, *expected = NULL;
	bool same;

	paths_open(&collection.kept);
	paths_open(&collection.visits);
	walk_scratch(scratch, path, collect, true, &collection);
	fclose(collection.visits.stream);
	free(collection.visits.data);
	assert_true((size_t)snprintf(listed_in.path, sizeof(listed_in.path), "%s/%s", scratch->path,
			    path) < sizeof(listed_in.path));
	listed = run_git(&listed_in, list, NULL);
	paths_open(&git_kept);
	for (size_t at = 0; at < listed.len; at += strlen(listed.data + at) + 1) {
		char name[4096];

		snprintf(name, sizeof(name), "%s%s%s", is_root ? "" : path, is_root ? "" : "/",
			listed.data + at);
		if (faccessat(scratch->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			paths_add(&git_kept, name);
	}
	free(listed.data);
	expected = paths_sorted(&git_kept);
	kept = paths_sorted(&collection.kept);
	same = strcmp(kept, expected) == 0;
	if (!same)
		print_error("in %s kept:\n%sgit's:\n%s", path, kept, expected);
	return same;
}

static inline bool keeps_as_git_lists(const struct scratch *scratch)
{
	return keeps_as_git_lists_in(scratch, ".");
}
