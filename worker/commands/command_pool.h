/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/commands/command_init.h"

/*
 * The init processes of the worker's commands, each with its own stack. An init waits for a
 * command, runs one, or has ended and is not yet reaped. An init serves one command and is never
 * used again.
 */

struct command_pool;

/**
 * Makes an empty pool. @cookie is the filter's cookie (command_filter.h); @inside is the user
 * namespace that commands enter, -1: none; @ruleset and @tries are borrowed. Returns 0 or -errno.
 */
int command_pool_new(uint64_t cookie, int inside, const struct command_ruleset *ruleset,
	const struct network_tries *tries, struct command_pool **ret);

/**
 * Starts a command in a waiting init or in a new one. Returns 0 and the init, which the pool owns;
 * -EBUSY if an init must be reaped first; another -errno if no new init can be made. The init may
 * have ended already, with the reason in its report.
 */
int command_pool_start(
	struct command_pool *pool, const struct command_start *start, struct command_init **ret);

/**
 * Makes inits for later commands, up to LIMIT_INITS_AHEAD. If that fails, the command that needs
 * one makes it.
 */
void command_pool_make_ahead(struct command_pool *pool);

/** Ends the waiting inits. */
void command_pool_end_ahead(struct command_pool *pool);

/** Whether an init waits. */
bool command_pool_has_ahead(const struct command_pool *pool);

/**
 * Returns the init whose process was @pid, or NULL. After command_pool_reaped() its entry may be
 * reused.
 */
struct command_init *command_pool_find(struct command_pool *pool, pid_t pid);
void command_pool_reaped(struct command_pool *pool, struct command_init *init);
