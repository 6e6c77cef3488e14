/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds the ids of users and groups by name: before lock-down through NSS, after it in /etc/passwd
 * and /etc/group. A name that only NSS knew keeps the id that it had before lock-down.
 */

#include <stdint.h>

struct accounts;

enum account_kind { ACCOUNT_USER, ACCOUNT_GROUP };

/** Opens the directory @etc, "/etc" outside of tests. Returns 0 or -errno. */
int accounts_open(const char *etc, struct accounts **ret);

/** Stops using NSS. */
void accounts_lock(struct accounts *accounts);

/**
 * Finds the id of @name, which may be a number; a number need not exist. Returns 0, -ENOENT if
 * there is no such name, -ERANGE for a number that is no id, or another -errno if it cannot be
 * found out. getpwnam(3), fgetpwent(3).
 */
int accounts_find(
	struct accounts *accounts, enum account_kind kind, const char *name, uint32_t *ret);

/** NULL is allowed. */
void accounts_free(struct accounts *accounts);
