// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client, as the calling user. git reads the caller's own configuration from outside of
 * any repository; of the workspace it reads one file, which it parses and does not act on.
 */
#include "client/git_identity.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VALUE_SIZE 256

/* Runs git config with @words, and stores the first line that it prints. Returns whether it did. */
static bool ask_git(char *const *words, char *const *environment, char value[static VALUE_SIZE])
{
	_cleanup_close_ int out = -1, in = -1;
	posix_spawn_file_actions_t actions;
	size_t len = 0;
	ssize_t n = 0;
	int pair[2], status = -1, r;
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return false;
	out = pair[0];
	in = pair[1];
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, in, STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, "git", &actions, NULL, words, environment);
	posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return false;
	close_fd(&in);
	while (len < VALUE_SIZE - 1 && ((n = read(out, value + len, VALUE_SIZE - 1 - len)) > 0 ||
					       (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	close_fd(&out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	value[len] = '\0';
	if (status != 0 || len < 2 || value[len - 1] != '\n')
		return false;
	value[len - 1] = '\0';
	for (const char *c = value; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return false;
	return true;
}

static bool is_set_by(const char *directory, char *const *environment, char *key)
{
	char file[PATH_MAX], value[VALUE_SIZE];
	char *const words[] = {(char[]){"git"}, (char[]){"config"}, (char[]){"--no-includes"},
		(char[]){"--file"}, file, (char[]){"--get"}, key, NULL};

	return directory &&
	       snprintf(file, sizeof(file), "%s/.git/config", directory) < (int)sizeof(file) &&
	       access(file, R_OK) == 0 && ask_git(words, environment, value);
}

void git_identity_read(
	const char *directory, char *const *environment, struct git_identity *ret_identity)
{
	static const struct {
		const char *key, *names[2];
	} rows[] = {{"user.name", {"GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"}},
		{"user.email", {"GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"}}};
	size_t count = 0;

	*ret_identity = (struct git_identity){0};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char key[16], value[VALUE_SIZE];
		char *const words[] = {(char[]){"git"}, (char[]){"-C"}, (char[]){"/"},
			(char[]){"config"}, (char[]){"--get"}, key, NULL};

		snprintf(key, sizeof(key), "%s", rows[i].key);
		if (!ask_git(words, environment, value) || is_set_by(directory, environment, key))
			continue;
		for (size_t name = 0; name < ARRAY_SIZE(rows[i].names); name++)
			snprintf(ret_identity->variables[count++], GIT_IDENTITY_SIZE, "%s=%s",
				rows[i].names[name], value);
	}
}
