/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The subordinate ids of a user: subuid(5), subgid(5). */

#include <stdint.h>
#include <sys/types.h>

struct id_range {
	uid_t uid_first;
	gid_t gid_first;
	uint32_t count; /* size of both ranges */
};

struct subordinate_user {
	const char *name; /* NULL: only lines with the number count */
	uid_t uid;
	gid_t gid;
};

/**
 * Takes the largest range of @user in @etc/subuid and its largest in @etc/subgid ("/etc" outside
 * of tests), cut to the smaller size. Returns 0, -ENOENT if there is none, -EINVAL if they cannot
 * be used, or another -errno.
 */
int subordinate_ids_find(
	const char *etc, const struct subordinate_user *user, struct id_range *ret);
