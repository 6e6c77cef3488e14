/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <sys/mman.h>

/**
 * Returns @size bytes of zeros for the life of the process, or NULL if memory is out. A page takes
 * memory when it is written to. Room that every workspace has and few use must not be cleared in
 * advance, as calloc(3) does if the heap has room. mmap(2)
 */
static inline void *zero_pages_new(size_t size)
{
	void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return pages == MAP_FAILED ? NULL : pages;
}
