/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The file that count_entries.c writes and tests/bench/path reads. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define COUNT_ENTRIES_MARK "cloister-path-"
#define COUNT_ENTRIES_MOST (1 << 20)

/* Where the thread's number begins in an entry; below it is the function, or a mark. */
#define COUNT_ENTRIES_THREAD_SHIFT 40
#define COUNT_ENTRIES_AWAKE        1 /* epoll_wait(2) has returned */
#define COUNT_ENTRIES_REQUEST      2 /* a request with the mark was read */
#define COUNT_ENTRIES_ANSWER       3 /* an answer with the mark was written */

struct count_entries {
	_Atomic uint64_t n; /* so many were written, each at its number modulo their most */
	uint64_t base;      /* where the program was loaded */
	uint64_t of[COUNT_ENTRIES_MOST];
};
