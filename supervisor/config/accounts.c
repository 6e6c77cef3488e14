// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/config/accounts.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#define BUFFER_START_BYTES 4096
#define BUFFER_MAX_BYTES   (4 * MIB) /* a group with very many members is one long line */

struct remembered {
	LIST_ENTRY(remembered) entry;
	enum account_kind kind;
	uint32_t id;
	char name[];
};

struct accounts {
	int etc_fd;
	bool locked;
	size_t n_remembered;
	LIST_HEAD(, remembered) remembered;
};

int accounts_open(const char *etc, struct accounts **ret)
{
	struct accounts *accounts = calloc(1, sizeof(*accounts));

	if (!accounts)
		return -ENOMEM;
	LIST_INIT(&accounts->remembered);
	accounts->etc_fd = open(etc, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (accounts->etc_fd < 0) {
		int r = -errno;

		free(accounts);
		return r;
	}
	*ret = accounts;
	return 0;
}

void accounts_lock(struct accounts *accounts)
{
	accounts->locked = true;
}

/*
 * Looks the name up with @buffer. Returns 0, -ENOENT, -ERANGE if the buffer is too small, or
 * another -errno.
 */
static int ask_nss(
	enum account_kind kind, const char *name, char *buffer, size_t size, uint32_t *ret)
{
	struct passwd user, *found_user = NULL;
	struct group group, *found_group = NULL;
	int error = kind == ACCOUNT_USER ? getpwnam_r(name, &user, buffer, size, &found_user)
					 : getgrnam_r(name, &group, buffer, size, &found_group);

	if (found_user)
		*ret = found_user->pw_uid;
	if (found_group)
		*ret = found_group->gr_gid;
	if (found_user || found_group)
		return 0;
	/* getpwnam(3) lists the errors by which services report an unknown name. */
	if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM)
		return -ENOENT;
	return -error;
}

/* Searches an open database file from its beginning. */
static int search_file(FILE *file, enum account_kind kind, const char *name, char *buffer,
	size_t size, uint32_t *ret)
{
	struct passwd user, *found_user;
	struct group group, *found_group;
	int error;

	rewind(file);
	for (;;) {
		error = kind == ACCOUNT_USER
				? fgetpwent_r(file, &user, buffer, size, &found_user)
				: fgetgrent_r(file, &group, buffer, size, &found_group);
		if (error != 0)
			return -error; /* ENOENT at the end */
		if (strcmp(kind == ACCOUNT_USER ? user.pw_name : group.gr_name, name) != 0)
			continue;
		*ret = kind == ACCOUNT_USER ? user.pw_uid : group.gr_gid;
		return 0;
	}
}

static int open_database(const struct accounts *accounts, enum account_kind kind, FILE **ret)
{
	int fd = openat(accounts->etc_fd, kind == ACCOUNT_USER ? "passwd" : "group",
		O_RDONLY | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	*ret = fdopen(fd, "re");
	if (*ret)
		return 0;
	close(fd);
	return -ENOMEM;
}

static int look_up_account(const struct accounts *accounts, bool in_file, enum account_kind kind,
	const char *name, uint32_t *ret)
{
	FILE *file = NULL;
	int r = in_file ? open_database(accounts, kind, &file) : 0;
	size_t size = BUFFER_START_BYTES;

	if (r < 0)
		return r;
	do {
		_cleanup_free_ char *buffer = malloc(size);

		if (!buffer)
			r = -ENOMEM;
		else if (file)
			r = search_file(file, kind, name, buffer, size, ret);
		else
			r = ask_nss(kind, name, buffer, size, ret);
		size *= 4;
	} while (r == -ERANGE && size <= BUFFER_MAX_BYTES);
	if (file)
		(void)fclose(file);
	return r;
}

static const struct remembered *recall(
	const struct accounts *accounts, enum account_kind kind, const char *name)
{
	const struct remembered *remembered;

	LIST_FOREACH (remembered, &accounts->remembered, entry)
		if (remembered->kind == kind && strcmp(remembered->name, name) == 0)
			return remembered;
	return NULL;
}

/*
 * Remembers names that the file lacks. Others are looked up in the file again, so that a deleted
 * name is gone.
 */
static int remember_account(
	struct accounts *accounts, enum account_kind kind, const char *name, uint32_t id)
{
	size_t size = strlen(name) + 1;
	struct remembered *remembered;
	uint32_t in_file;

	if (recall(accounts, kind, name) || accounts->n_remembered >= LIMIT_ACCOUNTS_REMEMBERED ||
		look_up_account(accounts, true, kind, name, &in_file) == 0)
		return 0;
	remembered = malloc(sizeof(*remembered) + size);
	if (!remembered)
		return -ENOMEM;
	remembered->kind = kind;
	remembered->id = id;
	memcpy(remembered->name, name, size);
	LIST_INSERT_HEAD(&accounts->remembered, remembered, entry);
	accounts->n_remembered++;
	return 0;
}

static int read_account_number(const char *name, uint32_t *ret)
{
	unsigned long long number;

	errno = 0;
	number = strtoull(name, NULL, 10);
	/* (uid_t)-1 is never an id: it means "no change" or "none". */
	if (errno != 0 || number >= UINT32_MAX)
		return -ERANGE;
	*ret = (uint32_t)number;
	return 0;
}

int accounts_find(
	struct accounts *accounts, enum account_kind kind, const char *name, uint32_t *ret)
{
	const struct remembered *remembered;
	int r;

	if (name[0] != '\0' && name[strspn(name, "0123456789")] == '\0')
		return read_account_number(name, ret);
	r = look_up_account(accounts, accounts->locked, kind, name, ret);
	if (r == 0)
		return accounts->locked ? 0 : remember_account(accounts, kind, name, *ret);
	remembered = accounts->locked && r == -ENOENT ? recall(accounts, kind, name) : NULL;
	if (!remembered)
		return r;
	*ret = remembered->id;
	return 0;
}

void accounts_free(struct accounts *accounts)
{
	if (!accounts)
		return;
	while (!LIST_EMPTY(&accounts->remembered)) {
		struct remembered *remembered = LIST_FIRST(&accounts->remembered);

		LIST_REMOVE(remembered, entry);
		free(remembered);
	}
	close_fd(&accounts->etc_fd);
	free(accounts);
}
