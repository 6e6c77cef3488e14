/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The roots of a tenant, for cloisterd and cloister-spawner alike. */

#include <stddef.h>
#include <sys/types.h>

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

/** Closes and frees all, and leaves an empty list. */
void root_list_done(struct root_list *list);
