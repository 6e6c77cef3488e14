// SPDX-License-Identifier: Apache-2.0
/* Runs in the spawner. */
#include "worker/spawner/sweep_turns.h"

#include "worker/spawner/home_sweep.h"

#include <string.h>
#include <sys/wait.h>

#define KILLED_MAX 8 /* for instance where memory is short; then the next start tries again */

void sweep_turns_init(struct sweep_turns *turns)
{
	turns->count = 0;
	TAILQ_INIT(&turns->list);
}

void sweep_turns_add(struct sweep_turns *turns, struct sweep_turn *turn)
{
	const struct sweep_turn *other;

	TAILQ_FOREACH (other, &turns->list, entry)
		if (strcmp(other->tenant, turn->tenant) == 0) {
			turn->last = other->last;
			break;
		}
	TAILQ_INSERT_TAIL(&turns->list, turn, entry);
}

void sweep_turns_remove(struct sweep_turns *turns, struct sweep_turn *turn)
{
	TAILQ_REMOVE(&turns->list, turn, entry);
}

struct sweep_turn *sweep_turns_take(struct sweep_turns *turns)
{
	struct sweep_turn *turn, *next = TAILQ_FIRST(&turns->list);

	TAILQ_FOREACH (turn, &turns->list, entry)
		if (turn->last < next->last)
			next = turn;
	if (!next)
		return NULL;
	turns->count++;
	TAILQ_FOREACH (turn, &turns->list, entry)
		if (strcmp(turn->tenant, next->tenant) == 0)
			turn->last = turns->count;
	return next;
}

bool sweep_turns_goes_on(struct sweep_turn *turn, int status)
{
	return home_sweep_goes_on(status) || (WIFSIGNALED(status) && turn->killed++ < KILLED_MAX);
}
