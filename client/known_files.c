// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the client. The entries come from the workspace. Two files with the same hash would be
 * confused. The 64-bit hash has a secret key, so with two million files that happens once in
 * millions of runs; and a workspace that lies about its files only misses them.
 */
#include "client/cmd/command.h"
#include "client/transfer/transfer.h"
#include "common/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_SIZE 1024

struct known_files {
	uint64_t key;
	uint64_t *hashes; /* open addressing; 0: free */
	size_t size, used;
};

static uint64_t mix(uint64_t hash)
{
	hash ^= hash >> 33;
	hash *= UINT64_C(0xff51afd7ed558ccd);
	hash ^= hash >> 33;
	hash *= UINT64_C(0xc4ceb9fe1a85ec53);
	return hash ^ hash >> 33;
}

static uint64_t hash_of(const struct known_files *known, const struct tar_entry *entry)
{
	uint64_t hash = mix(known->key ^ (entry->mode & 0777) ^ ((uint64_t)entry->type << 32));

	hash = mix(hash ^ entry->size);
	hash = mix(hash ^ (uint64_t)entry->mtime.tv_sec);
	hash = mix(hash ^ (uint64_t)entry->mtime.tv_nsec);
	for (const char *byte = entry->path; *byte; byte++)
		hash = (hash ^ (unsigned char)*byte) * UINT64_C(0x100000001b3);
	hash = mix(hash);
	return hash ? hash : 1;
}

static size_t place_of(const struct known_files *known, uint64_t hash)
{
	size_t place = (size_t)hash & (known->size - 1);

	while (known->hashes[place] != 0 && known->hashes[place] != hash)
		place = (place + 1) & (known->size - 1);
	return place;
}

struct known_files *known_files_new(void)
{
	struct known_files *known = calloc(1, sizeof(*known));

	if (known)
		known->hashes = calloc(FIRST_SIZE, sizeof(*known->hashes));
	if (!known || !known->hashes) {
		complain("out of memory");
		free(known);
		return NULL;
	}
	known->size = FIRST_SIZE;
	if (getrandom(&known->key, sizeof(known->key), 0) != sizeof(known->key))
		known->key = 1;
	return known;
}

static int grow_known_files(struct known_files *known)
{
	struct known_files larger = *known;

	larger.size *= 2;
	larger.hashes = calloc(larger.size, sizeof(*larger.hashes));
	if (!larger.hashes)
		return -ENOMEM;
	for (size_t i = 0; i < known->size; i++)
		if (known->hashes[i] != 0)
			larger.hashes[place_of(&larger, known->hashes[i])] = known->hashes[i];
	free(known->hashes);
	*known = larger;
	return 0;
}

int known_files_add(struct known_files *known, const struct tar_entry *entry)
{
	uint64_t hash = hash_of(known, entry);
	size_t place;

	/* A file that is not in the set is just sent again. */
	if (known->used >= LIMIT_PUT_KNOWN)
		return 0;
	if (known->used >= known->size / 2 && grow_known_files(known) < 0)
		return 0;
	place = place_of(known, hash);
	known->used += known->hashes[place] == 0;
	known->hashes[place] = hash;
	return 0;
}

bool known_files_is_empty(const struct known_files *known)
{
	return known->used == 0;
}

bool known_files_has(const struct known_files *known, const struct tar_entry *entry)
{
	return known->hashes[place_of(known, hash_of(known, entry))] != 0;
}

void known_files_free(struct known_files *known)
{
	if (known)
		free(known->hashes);
	free(known);
}
