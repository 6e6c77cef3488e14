/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists that a configuration holds, for cloisterd and cloister-spawner alike. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct id_list {
	uint32_t *ids;
	size_t count;
};

struct string_list {
	char **strings;
	size_t count;
};

/* A directory that was open when the configuration was read: held, so that its inode stays its own.
 */
struct tenant_root {
	int fd; /* O_PATH */
	dev_t dev;
	ino_t ino;
};

struct root_list {
	struct tenant_root *roots;
	size_t count;
};

/** Frees all, and leaves an empty list. */
void string_list_done(struct string_list *list);

/** Closes and frees all, and leaves an empty list. */
void root_list_done(struct root_list *list);
