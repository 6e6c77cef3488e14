// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker. An entry is free, holds a waiting init, or holds an init whose command was
 * started.
 */
#include "worker/commands/command_pool.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/zero_pages.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>

/*
 * As many entries again as commands may run at once, for inits that wait or that are still to be
 * reaped.
 */
#define PLACES (2UL * LIMIT_COMMANDS_AT_ONCE)

struct place {
	struct command_init init; /* init.pid is 0 in a free entry */
	bool waiting;
};

/* Only what was used of the places takes memory, so nothing writes to a free one. */
struct command_pool {
	struct command_init first; /* what every init begins with */
	struct command_report *reports;
	unsigned commands; /* inits that were made, from a random number on */
	struct place places[PLACES];
};

/*
 * Maps a stack with a guard page below it, when the entry is first used, and keeps it. Most
 * workspaces run few commands at once, and a hundred stacks with guard pages would be two hundred
 * mappings.
 */
static int map_stack(struct command_init *init)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE), size = guard + COMMAND_INIT_STACK;
	char *mapping;

	if (init->stack)
		return 0;
	mapping = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED)
		return -errno;
	if (mprotect(mapping, guard, PROT_NONE) < 0) {
		int r = -errno;

		munmap(mapping, size);
		return r;
	}
	init->stack = mapping + guard;
	return 0;
}

int command_pool_new(uint64_t cookie, int inside, const struct command_ruleset *ruleset,
	const struct network_tries *tries, struct command_pool **ret)
{
	struct command_pool *pool = zero_pages_new(sizeof(*pool));
	void *reports;

	if (!pool)
		return -ENOMEM;
	reports = mmap(NULL, PLACES * sizeof(*pool->reports), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reports == MAP_FAILED)
		return -errno;
	pool->reports = reports;
	if (getrandom(&pool->commands, sizeof(pool->commands), 0) != sizeof(pool->commands))
		return -EIO;
	pool->first = (struct command_init){
		.cookie = cookie, .inside = inside, .ruleset = ruleset, .tries = tries};
	*ret = pool;
	return 0;
}

static struct place *find_waiting(struct command_pool *pool)
{
	for (size_t i = 0; i < PLACES; i++)
		if (pool->places[i].waiting)
			return &pool->places[i];
	return NULL;
}

/* Returns the first free entry, so that as few stacks as possible are ever mapped. */
static struct place *find_free(struct command_pool *pool)
{
	for (size_t i = 0; i < PLACES; i++)
		if (pool->places[i].init.pid == 0)
			return &pool->places[i];
	return NULL;
}

/*
 * Process ids of one command must not be those of another: programs keep them in files, and a later
 * command would take a process of its own for the one that is meant. Steps of the golden ratio keep
 * each number far from those before. The range is what every kernel.pid_max allows, without the
 * first 300, which the kernel leaves out when ids begin anew.
 */
static unsigned ids_begin_after(unsigned command)
{
	const unsigned first = 300, last = 32000;

	return first +
	       (unsigned)((uint64_t)(uint32_t)(command * 2654435769U) * (last - first) >> 32);
}

/* Makes the init of a free entry. It waits for command_init_go() if there is no @start yet. */
static int make_pooled_init(struct command_pool *pool, struct place *place, uint32_t go,
	const struct command_start *start)
{
	char *stack = place->init.stack;
	int r;

	place->init = pool->first;
	place->init.stack = stack;
	place->init.report = &pool->reports[place - pool->places];
	place->init.before = ids_begin_after(pool->commands++);
	if (start)
		place->init.start = *start;
	r = COMMAND_INIT_SHARES_MEMORY ? map_stack(&place->init) : 0;
	if (r < 0)
		return r;
	*place->init.report = (struct command_report){.go = go, .ruleset = -1};
	return command_init_make(&place->init);
}

int command_pool_start(
	struct command_pool *pool, const struct command_start *start, struct command_init **ret)
{
	struct place *place;
	int r;

	while ((place = find_waiting(pool))) {
		place->waiting = false;
		place->init.start = *start;
		*ret = &place->init;
		if (command_init_go(&place->init))
			return 0;
	}
	place = find_free(pool);
	if (!place)
		return -EBUSY;
	r = make_pooled_init(pool, place, COMMAND_INIT_GOES, start);
	if (r < 0)
		return r;
	*ret = &place->init;
	return 0;
}

static size_t count_ahead(const struct command_pool *pool)
{
	size_t count = 0;

	for (size_t i = 0; i < PLACES; i++)
		count += pool->places[i].waiting;
	return count;
}

void command_pool_make_ahead(struct command_pool *pool)
{
	size_t wanted = COMMAND_INIT_SHARES_MEMORY ? LIMIT_INITS_AHEAD : 0;

	for (size_t count = count_ahead(pool); count < wanted; count++) {
		struct place *place = find_free(pool);

		if (!place || make_pooled_init(pool, place, COMMAND_INIT_WAITS, NULL) < 0)
			return;
		place->waiting = true;
	}
}

void command_pool_end_ahead(struct command_pool *pool)
{
	for (size_t i = 0; i < PLACES; i++) {
		if (!pool->places[i].waiting)
			continue;
		kill(pool->places[i].init.pid, SIGKILL);
		pool->places[i].waiting = false;
	}
}

bool command_pool_has_ahead(const struct command_pool *pool)
{
	return count_ahead(pool) > 0;
}

struct command_init *command_pool_find(struct command_pool *pool, pid_t pid)
{
	for (size_t i = 0; i < PLACES; i++)
		if (pool->places[i].init.pid == pid)
			return &pool->places[i].init;
	return NULL;
}

void command_pool_reaped(struct command_pool *pool, struct command_init *init)
{
	for (size_t i = 0; i < PLACES; i++)
		if (&pool->places[i].init == init)
			pool->places[i].waiting = false;
	close_fd(&init->report->ruleset);
	init->pid = 0;
}
