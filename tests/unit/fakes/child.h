/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A child of the test, for what changes a process for good. CHECK() asserts in it. */

#include <stdbool.h>

/** Runs @act in a child, which then ends with 0. Returns its status, wait(2). */
int child_run(void (*act)(const void *row), const void *row);

/** Ends the child with @code; preset coverage counts what it ran, if it may still write that. */
_Noreturn void child_end(int code);

/** Ends the child with 1 and says where, unless @holds. */
void child_check(bool holds, const char *what, const char *file, int line);

#define CHECK(condition) child_check(condition, #condition, __FILE__, __LINE__)
