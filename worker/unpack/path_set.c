// SPDX-License-Identifier: Apache-2.0
#include "worker/unpack/path_set.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define SIZE_AT_FIRST 1024

int path_set_init(struct path_set *set)
{
	*set = (struct path_set){0};
	return getrandom(set->key, sizeof(set->key), 0) == sizeof(set->key) ? 0 : -EIO;
}

void path_set_done(struct path_set *set)
{
	free(set->hashes);
	set->hashes = NULL;
	set->size = set->n = 0;
}

void path_set_clear(struct path_set *set)
{
	if (set->hashes)
		memset(set->hashes, 0, set->size * sizeof(*set->hashes));
	set->n = 0;
}

static uint64_t hash_of(const struct path_set *set, const char *path, size_t len)
{
	struct sha256_ctx context;
	uint64_t hash;

	sha256_init(&context);
	sha256_update(&context, sizeof(set->key), set->key);
	sha256_update(&context, len, (const uint8_t *)path);
	sha256_digest(&context, sizeof(hash), (uint8_t *)&hash);
	return hash ? hash : 1;
}

/* Returns the place of @hash, or the empty one in which it belongs. */
static uint64_t *find_path_hash(uint64_t *hashes, size_t size, uint64_t hash)
{
	size_t at = (size_t)hash & (size - 1);

	while (hashes[at] != 0 && hashes[at] != hash)
		at = (at + 1) & (size - 1);
	return &hashes[at];
}

static int grow_path_set(struct path_set *set)
{
	size_t size = set->size > 0 ? 2 * set->size : SIZE_AT_FIRST;
	uint64_t *hashes = calloc(size, sizeof(*hashes));

	if (!hashes)
		return -ENOMEM;
	for (size_t i = 0; i < set->size; i++)
		if (set->hashes[i] != 0)
			*find_path_hash(hashes, size, set->hashes[i]) = set->hashes[i];
	free(set->hashes);
	set->hashes = hashes;
	set->size = size;
	return 0;
}

int path_set_add(struct path_set *set, const char *path, size_t len)
{
	uint64_t hash = hash_of(set, path, len), *place;

	if (2 * (set->n + 1) > set->size && grow_path_set(set) < 0)
		return -ENOMEM;
	place = find_path_hash(set->hashes, set->size, hash);
	set->n += *place == 0;
	*place = hash;
	return 0;
}

bool path_set_has(const struct path_set *set, const char *path, size_t len)
{
	uint64_t hash;

	if (set->n == 0)
		return false;
	hash = hash_of(set, path, len);
	return *find_path_hash(set->hashes, set->size, hash) == hash;
}
