/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directories of workspaces that the old cloisterd still uses. This one opens
 * none of them until the old daemon has released it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct elsewhere;

/** Returns NULL if memory is out. */
struct elsewhere *elsewhere_new(void);
void elsewhere_free(struct elsewhere *elsewhere);

/** Adds a directory with its owner. Returns 0 or -ENOMEM. */
int elsewhere_add(struct elsewhere *elsewhere, dev_t dev, ino_t ino, uid_t uid);

/** Removes it. Does nothing if it is not there. */
void elsewhere_remove(struct elsewhere *elsewhere, dev_t dev, ino_t ino);
void elsewhere_clear(struct elsewhere *elsewhere);

/** The functions below accept NULL: there are none. */
bool elsewhere_has(const struct elsewhere *elsewhere, dev_t dev, ino_t ino);

/** Whether a directory other than the given one belongs to @uid. */
bool elsewhere_has_uid(const struct elsewhere *elsewhere, uid_t uid, dev_t dev, ino_t ino);
size_t elsewhere_count(const struct elsewhere *elsewhere);
