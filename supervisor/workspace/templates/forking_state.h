/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of forks that are being made, for forks.c. */

#include "common/limits.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/workspace/managed/properties.h"
#include "supervisor/workspace/templates/forking.h"

#include <sys/queue.h>

#define DIGITS 9 /* of a fork's number */

struct forking {
	LIST_ENTRY(forking) entry;
	struct workspaces *all;
	struct tenant *tenant; /* held */
	char template[LIMIT_TEMPLATE_NAME_BYTES + 1], prefix[LIMIT_TEMPLATE_NAME_BYTES + 1];
	char tree[LIMIT_TEMPLATE_TREE_BYTES + 1]; /* the newest of the template */
	bool as_root;
	struct properties with;      /* that each of them keeps */
	uint32_t first, count, done; /* forks that are there, or copied */
	struct unfinished *copies;   /* system mode: without their names; NULL: none are copied */
	bool loading;                /* system mode: the template, into memory */
	bool in_memory;              /* it is there */
	char *why_copied;            /* NULL: they are not, or there is no memory for it */
	bool copying;                /* the one after those that are done */
	bool making;                 /* without copies, in slices: not all are there, */
	bool undoing;                /* or, as one cannot be made, not all are gone */
	uint32_t reserved;           /* in the tenant's forks_awaited */
	struct loop_share_task slice;
	uint64_t asked;             /* its number with the spawner */
	struct loop_turn_task tell; /* the end */
	enum tool_error error;
	char *why;
	forks_made made;
	void *context;
};

/** Returns the number that @name has after the prefix; 0: it is no name of a fork of the prefix. */
uint32_t forking_number(const struct forking *forking, const char *name);
