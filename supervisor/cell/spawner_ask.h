/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests of cloisterd to the spawner. */

#include "supervisor/cell/spawner_link.h"

/**
 * Asks for a cell (@type SPAWNER_OPEN), a spare cell (SPAWNER_PREPARE), a new files process
 * (SPAWNER_OPEN_FILES; of the answer's descriptors only its pidfd is not -1), or the assignment of
 * a spare cell (SPAWNER_ASSIGN; both pidfds are -1). Takes the @fds that belong to the type.
 * @answer is called exactly once, later, also if the spawner is lost (-ECONNRESET), unless
 * spawner_link_forget(@cell) is called before. Returns 0 and a number in @ret_cell, or -errno.
 */
int spawner_link_open(struct spawner_link *link, uint8_t type, const struct spawner_open *request,
	const int *fds, spawner_answer answer, void *context, uint64_t *ret_cell);

/**
 * Asks for the directory that @request names from @from (borrowed). A path resolver looks it up and
 * may wait for its file system up to LIMIT_LOOK_UP_MS. @looked is called like the answer of
 * spawner_link_open(). Returns 0 and a number for spawner_link_forget() in @ret_number, or -errno.
 */
int spawner_link_look_up(struct spawner_link *link, const struct spawner_look_up *request, int from,
	spawner_looked looked, void *context, uint64_t *ret_number);

/**
 * Asks for a tree to be copied, by SPAWNER_FREEZE with SPAWNER_FREEZE_FDS @fds, SPAWNER_UNPACK with
 * SPAWNER_UNPACK_FDS, SPAWNER_IMPORT with one, or SPAWNER_FORK with none (borrowed). It may take up
 * to LIMIT_COPY_MS. @copied is called like the answer of spawner_link_open(). Returns 0 and a
 * number for spawner_link_forget() in @ret_number, or -errno.
 */
int spawner_link_copy(struct spawner_link *link, uint8_t type, const struct spawner_copy *request,
	const int *fds, spawner_copied copied, void *context, uint64_t *ret_number);

/**
 * Asks for the template @name in the directory @tenant of the templates to be in memory, which only
 * system mode needs, and may take up to LIMIT_COPY_MS. As spawner_link_copy().
 */
int spawner_link_load(struct spawner_link *link, const char *tenant, const char *name,
	spawner_copied loaded, void *context, uint64_t *ret_number);

/**
 * Asks where the processes of the @n @pidfds (borrowed) wait, which are SPAWNER_WHERE_MOST at most.
 * @told is called with the clause of whereabouts_find() (worker/spawner/whereabouts.h) as its step
 * and no error, or as spawner_link_copy() says.
 */
int spawner_link_where(struct spawner_link *link, const int *pidfds, unsigned n,
	spawner_copied told, void *context, uint64_t *ret_number);
