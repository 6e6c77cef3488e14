/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Steps of a start that end the process, tried in a child. */

#include "tests/lib/unit.h"

/* Fails unless a child that does @step exits with @wanted and writes @words to stderr. */
static inline void assert_exits_with(int wanted, void (*step)(void), const char *words)
{
	char said[4096];
	size_t len = 0;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		step();
		_exit(99);
	}
	close(ends[1]);
	while ((n = read(ends[0], said + len, sizeof(said) - 1 - len)) > 0)
		len += (size_t)n;
	said[len] = '\0';
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted || !strstr(said, words))
		fail_msg("status %d, not \"%s\": %s", status, words, said);
}

static inline void assert_exits(void (*step)(void), const char *words)
{
	assert_exits_with(1, step, words);
}
