/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of users and groups to ids. Before lock-down NSS is asked; after it /etc/passwd and
 * /etc/group are read, and a name that only NSS had known keeps the id it had then.
 */

#include <stdint.h>

struct accounts;

enum account_kind { ACCOUNT_USER, ACCOUNT_GROUP };

/** Opens the directory @etc, "/etc" outside of tests. 0 or -errno. */
int accounts_open(const char *etc, struct accounts **ret);

/** NSS is asked no more. */
void accounts_lock(struct accounts *accounts);

/**
 * The id of @name, which may be a number. 0; -ENOENT when there is none of this name (a number is
 * taken as it is); -ERANGE for a number that is no id; another -errno when it cannot be found out.
 * getpwnam(3), fgetpwent(3).
 */
int accounts_find(
	struct accounts *accounts, enum account_kind kind, const char *name, uint32_t *ret);

/** NULL is fine. */
void accounts_free(struct accounts *accounts);
