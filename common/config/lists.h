/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lists of configuration values, for cloisterd and the spawner. */

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

/*
 * A directory named in the configuration. It is kept open so that its inode number is not reused.
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

/** Frees the strings and leaves an empty list. */
void string_list_done(struct string_list *list);

/** Closes and frees the roots and leaves an empty list. */
void root_list_done(struct root_list *list);
