// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process; see same_name.h. */
#include "worker/files/walk/same_name.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "worker/files/walk/same_name_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#define CHARACTER_PARTS 4 /* of the longest decomposition */

#define HANGUL_S 0xac00u
#define HANGUL_L 0x1100u
#define HANGUL_V 0x1161u
#define HANGUL_T 0x11a7u
#define HANGUL_N (21 * 28u) /* syllables of one leading consonant */

/* The characters of a name, decomposed. */
struct characters {
	uint32_t character[LIMIT_NAME_BYTES * CHARACTER_PARTS];
	size_t count;
};

static int compare_rows(const void *key, const void *row)
{
	return (int)*(const uint32_t *)key - (int)*(const uint16_t *)row;
}

static void decompose(struct characters *all, uint32_t character)
{
	const uint16_t *row;

	if (character >= HANGUL_S && character < HANGUL_S + 19 * HANGUL_N) {
		const uint32_t at = character - HANGUL_S;

		all->character[all->count++] = HANGUL_L + at / HANGUL_N;
		all->character[all->count++] = HANGUL_V + at % HANGUL_N / 28;
		if (at % 28 > 0)
			all->character[all->count++] = HANGUL_T + at % 28;
		return;
	}
	/* Only the first part of one may have parts itself. */
	row = bsearch(&character, decompositions, ARRAY_SIZE(decompositions),
		sizeof(decompositions[0]), compare_rows);
	if (row) {
		decompose(all, row[1]);
		character = row[2];
	}
	all->character[all->count++] = character;
}

static bool read_same_name(struct text name, struct characters *ret)
{
	ret->count = 0;
	if (name.len > LIMIT_NAME_BYTES || !utf8_is_valid(name))
		return false;
	while (name.len > 0) {
		const size_t len = utf8_sequence(name).have;
		uint32_t character = (unsigned char)name.data[0];

		if (len > 1)
			character &= 0x7fu >> len;
		for (size_t i = 1; i < len; i++)
			character = character << 6 | ((unsigned char)name.data[i] & 0x3f);
		decompose(ret, character);
		name = (struct text){name.data + len, name.len - len};
	}
	return true;
}

bool same_name(struct text a, struct text b)
{
	struct characters of_a, of_b;

	return read_same_name(a, &of_a) && read_same_name(b, &of_b) && of_a.count == of_b.count &&
	       memcmp(of_a.character, of_b.character, of_a.count * sizeof(uint32_t)) == 0;
}

static bool is_ascii(struct text name)
{
	for (size_t i = 0; i < name.len; i++)
		if (name.data[i] & 0x80)
			return false;
	return true;
}

/* Finds an entry of @dirfd with the same name as @name, which has bytes beyond ASCII. */
static bool find_same(int dirfd, const char *name, char found[static LIMIT_NAME_BYTES + 1])
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	bool same = false;

	if (!directory) {
		close_fd(&fd);
		return false;
	}
	for (int i = 0; !same && i < LIMIT_NEAR_ENTRIES && (entry = readdir(directory)); i++) {
		same = !is_ascii(text_from(entry->d_name)) &&
		       same_name(text_from(entry->d_name), text_from(name));
		if (same)
			memcpy(found, entry->d_name, strnlen(entry->d_name, LIMIT_NAME_BYTES) + 1);
	}
	closedir(directory);
	return same;
}

/* Replaces the component at @at of @path, of @len bytes, by @name. */
static bool replace_component(char **path, size_t at, size_t len, const char *name)
{
	char *replaced;

	if (asprintf(&replaced, "%.*s%s%s", (int)at, *path, name, *path + at + len) < 0)
		return false;
	free(*path);
	*path = replaced;
	return true;
}

bool same_path(int root, const char *path, char **ret_path)
{
	_cleanup_close_ int dir = -1;
	_cleanup_free_ char *made = NULL;
	bool respelled = false;
	size_t at = 0;

	if (is_ascii(text_from(path)))
		return false;
	made = strdup(path);
	while (made && made[at]) {
		char name[LIMIT_NAME_BYTES + 1], found[LIMIT_NAME_BYTES + 1];
		size_t len = strcspn(made + at, "/");
		const int above = dir < 0 ? root : dir;
		struct stat st;
		int next;

		if (len > LIMIT_NAME_BYTES)
			return false;
		*(char *)mempcpy(name, made + at, len) = '\0';
		if (strcmp(name, "..") == 0)
			return false;
		if (len > 0 && fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (is_ascii(text_from(name)) || !find_same(above, name, found))
				break;
			if (!replace_component(&made, at, len, found))
				return false;
			len = strlen(found);
			memcpy(name, found, len + 1);
			respelled = true;
		}
		at += len;
		if (!made[at])
			break;
		at++;
		if (len == 0)
			continue;
		/* What lies behind a link is not looked for. */
		next = openat(above, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			break;
		close_fd(&dir);
		dir = next;
	}
	if (!respelled)
		return false;
	*ret_path = TAKE_PTR(made);
	return true;
}
