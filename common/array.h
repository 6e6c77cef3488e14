/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>
#include <stdlib.h>

/**
 * Grows the malloc'ed array whose address is at @array until it holds at least @need items of
 * @item_size bytes. *@size is the number of items that it holds. Returns 0, or -ENOMEM with both
 * untouched.
 */
static inline int array_reserve(void *array, size_t *size, size_t need, size_t item_size)
{
	size_t larger = *size ? *size : 256;
	void *grown;

	if (need <= *size)
		return 0;
	while (larger < need)
		larger *= 2;
	grown = reallocarray(*(void **)array, larger, item_size);
	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*size = larger;
	return 0;
}
