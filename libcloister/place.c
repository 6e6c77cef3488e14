// SPDX-License-Identifier: Apache-2.0
/*
 * Part of libcloister: on which of several hosts a workspace is. The highest score wins: rendezvous
 * hashing (Thaler and Ravishankar, "A Name-Based Mapping Scheme for Rendezvous", 1996). A host that
 * goes or comes moves only the workspaces that it has or gets.
 *
 * Python's place() and TypeScript's place() give the same; tests/lib/places.h has examples.
 */
#include "libcloister/cloister.h"

#include <errno.h>
#include <string.h>

/* FNV-1a of 64 bits, RFC 9923. */
#define FNV_OFFSET 0xcbf29ce484222325ULL
#define FNV_PRIME  0x00000100000001b3ULL

/* Adds the bytes of @text and its NUL, so that no two lists of texts are the same bytes. */
static uint64_t add_place_hash(uint64_t hash, const char *text)
{
	for (size_t i = 0, n = strlen(text) + 1; i < n; i++)
		hash = (hash ^ (unsigned char)text[i]) * FNV_PRIME;
	return hash;
}

/* FNV leaves names that differ in the last byte close together: the end of SplitMix64 (Vigna). */
static uint64_t mix_hash(uint64_t hash)
{
	hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9ULL;
	hash = (hash ^ hash >> 27) * 0x94d049bb133111ebULL;
	return hash ^ hash >> 31;
}

int cloister_place(const char *tenant, const char *workspace, const char *const *nodes,
	size_t n_nodes, size_t *ret_node)
{
	uint64_t hash, best = 0;
	size_t place = 0;

	if (!tenant || !workspace || !nodes || n_nodes == 0 || !ret_node)
		return -EINVAL;
	hash = add_place_hash(add_place_hash(FNV_OFFSET, tenant), workspace);
	for (size_t i = 0; i < n_nodes; i++) {
		uint64_t score;

		if (!nodes[i])
			return -EINVAL;
		score = mix_hash(add_place_hash(hash, nodes[i]));
		if (i > 0 &&
			(score < best || (score == best && strcmp(nodes[i], nodes[place]) >= 0)))
			continue;
		best = score;
		place = i;
	}
	*ret_node = place;
	return 0;
}
