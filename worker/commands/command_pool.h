/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/commands/command_init.h"

/*
 * cloister-worker: the inits of its commands, each in a place with its own stack: those made ahead,
 * which wait for a command, those whose command runs, and those that are over and not reaped. An
 * init serves one command and is never used again.
 */

struct command_pool;

/** A pool without inits; @pass is the system call filter's (command_filter.h), @wall is borrowed. 0
 * or -errno. */
int command_pool_new(uint64_t pass, const struct command_wall *wall, struct command_pool **ret);

/** Starts a command in an init that waits, or in a new one. 0 and the init, which is the pool's;
 * -EBUSY until one is reaped; another -errno when there can be no new one. It may be over at once,
 * with the reason in its report. */
int command_pool_start(
	struct command_pool *pool, const struct command_start *start, struct command_init **ret);

/** Makes inits ahead, up to LIMIT_INITS_AHEAD. What cannot be made now is made when it is needed.
 */
void command_pool_make_ahead(struct command_pool *pool);

/** Ends those that wait. */
void command_pool_end_ahead(struct command_pool *pool);

/** Whether any waits. */
bool command_pool_has_ahead(const struct command_pool *pool);

/** The init whose process was @pid; NULL if none was. After command_pool_reaped its place may be
 * used again. */
struct command_init *command_pool_find(struct command_pool *pool, pid_t pid);
void command_pool_reaped(struct command_pool *pool, struct command_init *init);
