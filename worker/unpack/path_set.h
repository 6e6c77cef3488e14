/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The paths of one archive, each as 64 bits of a keyed hash. The author of the archive does not
 * know the key, and two paths with one hash only refuse the archive.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct path_set {
	uint8_t key[16];
	uint64_t *hashes; /* 0: empty; its size is a power of two */
	size_t size, n;
};

/** Makes an empty set. Returns 0 or -errno. */
int path_set_init(struct path_set *set);
void path_set_done(struct path_set *set);

/** Forgets all paths. */
void path_set_clear(struct path_set *set);

/** Adds the @len bytes at @path. Returns 0 or -ENOMEM. */
int path_set_add(struct path_set *set, const char *path, size_t len);
bool path_set_has(const struct path_set *set, const char *path, size_t len);
