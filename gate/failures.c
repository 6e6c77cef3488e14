// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-gate. Strangers choose the addresses: the table forgets the oldest. */
#include "gate/failures.h"

#include "common/limits.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_MS 60000

struct entry {
	struct gate_peer peer;
	int64_t began_ms;
	uint64_t count; /* 0: the entry is free */
};

struct gate_failures {
	struct entry entries[LIMIT_GATE_ADDRESSES];
};

struct gate_failures *gate_failures_new(void)
{
	return calloc(1, sizeof(struct gate_failures));
}

void gate_failures_free(struct gate_failures *failures)
{
	free(failures);
}

uint64_t gate_failures_have(
	const struct gate_failures *failures, const struct gate_peer *peer, int64_t now_ms)
{
	for (size_t i = 0; i < LIMIT_GATE_ADDRESSES; i++) {
		const struct entry *entry = &failures->entries[i];

		if (entry->count > 0 && now_ms - entry->began_ms < WINDOW_MS &&
			memcmp(&entry->peer, peer, sizeof(*peer)) == 0)
			return entry->count;
	}
	return 0;
}

uint64_t gate_failures_count(
	struct gate_failures *failures, const struct gate_peer *peer, int64_t now_ms)
{
	struct entry *oldest = &failures->entries[0];

	for (size_t i = 0; i < LIMIT_GATE_ADDRESSES; i++) {
		struct entry *entry = &failures->entries[i];

		if (entry->count > 0 && now_ms - entry->began_ms >= WINDOW_MS)
			entry->count = 0;
		if (entry->count > 0 && memcmp(&entry->peer, peer, sizeof(*peer)) == 0)
			return ++entry->count;
		if (oldest->count > 0 && (entry->count == 0 || entry->began_ms < oldest->began_ms))
			oldest = entry;
	}
	*oldest = (struct entry){*peer, now_ms, 1};
	return 1;
}
