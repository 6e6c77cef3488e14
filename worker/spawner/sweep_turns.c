// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner. */
#include "worker/spawner/sweep_turns.h"

#include "common/limits.h"
#include "worker/spawner/home_sweep.h"

#include <string.h>
#include <sys/wait.h>

#define KILLED_MAX 8 /* for instance where memory is short; then the next start tries again */

void sweep_turns_init(struct sweep_turns *turns)
{
	*turns = (struct sweep_turns){0};
	TAILQ_INIT(&turns->list);
}

void sweep_turns_add(struct sweep_turns *turns, struct sweep_turn *turn)
{
	const struct sweep_turn *other;

	turn->used_ms = turns->used_ms;
	TAILQ_FOREACH (other, &turns->list, entry)
		if (strcmp(other->tenant, turn->tenant) == 0) {
			turn->used_ms = other->used_ms;
			break;
		}
	TAILQ_INSERT_TAIL(&turns->list, turn, entry);
	turns->count++;
}

void sweep_turns_remove(struct sweep_turns *turns, struct sweep_turn *turn)
{
	TAILQ_REMOVE(&turns->list, turn, entry);
	turns->count--;
}

struct sweep_turn *sweep_turns_take(struct sweep_turns *turns, uint64_t now_ms)
{
	struct sweep_turn *turn, *next = TAILQ_FIRST(&turns->list);

	TAILQ_FOREACH (turn, &turns->list, entry)
		if (turn->used_ms < next->used_ms)
			next = turn;
	if (next) {
		turns->used_ms = next->used_ms;
		turns->began_ms = now_ms;
	} else {
		turns->late = false;
	}
	return next;
}

bool sweep_turns_hurries(const struct sweep_turns *turns)
{
	return turns->late || turns->count > LIMIT_SWEEP_IDLE;
}

void sweep_turns_used(struct sweep_turns *turns, const struct sweep_turn *turn, uint64_t now_ms)
{
	/* A turn that took no time counts, too. */
	const uint64_t used_ms = turn->used_ms + now_ms - turns->began_ms + 1;
	struct sweep_turn *other;

	TAILQ_FOREACH (other, &turns->list, entry)
		if (strcmp(other->tenant, turn->tenant) == 0)
			other->used_ms = used_ms;
}

bool sweep_turns_goes_on(struct sweep_turns *turns, struct sweep_turn *turn, int status)
{
	turns->late = turns->late || home_sweep_is_late(status);
	return home_sweep_goes_on(status) || (WIFSIGNALED(status) && turn->killed++ < KILLED_MAX);
}
