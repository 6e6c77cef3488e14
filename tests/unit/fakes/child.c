// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/child.h"
#include "tests/lib/unit.h"

/* In preset coverage only. */
void __gcov_dump(void) __attribute__((weak));

void child_end(int code)
{
	if (__gcov_dump)
		__gcov_dump();
	_exit(code);
}

void child_check(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	dprintf(STDERR_FILENO, "%s:%d: not so: %s\n", file, line, what);
	child_end(1);
}

int child_run(void (*act)(const void *row), const void *row)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		act(row);
		child_end(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}
