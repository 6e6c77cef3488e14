/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The workspaces that a self-test makes its calls in, of tenants that no configuration has. */

#include "common/errors.h"
#include "supervisor/selftest/selftest_suite.h"

#include <stdbool.h>

struct refusal;
struct workspaces;

enum canary_place {
	CANARY_PLAIN,   /* without a network */
	CANARY_NETWORK, /* with one */
	CANARY_EMPTY,   /* with a network that is narrowed to no host */
	/* forks of the first, which selftest_forks.h makes and removes */
	CANARY_FORK,
	CANARY_SIBLING,
	CANARY_ROOT, /* a whole root, in which commands are uid 0 */
	CANARY_PLACES,
};

struct canary {
	struct tenant *tenant;
	struct workspace *workspace; /* held during a run; NULL: not opened yet */
	size_t set_up;               /* number of completed set-up steps of the run */
	bool is_left;                /* it was cleared at the run's end */
};

/** Where probes of @kind are made. */
enum canary_place canary_place(enum probe_kind kind);

/** Whether @place has a network, and whether it is a fork; then its name. */
bool canary_has_network(enum canary_place place);
bool canary_is_fork(enum canary_place place);
const char *canary_name(enum canary_place place);

/** Makes the tenants. Returns 0 or -ENOMEM; canaries_free() frees it in both cases. */
int canaries_make(struct canary canaries[CANARY_PLACES]);
void canaries_free(struct canary canaries[CANARY_PLACES]);

/**
 * Opens the workspace of @place unless it is open, and creates it if it does not exist and is not a
 * fork. Returns TOOL_OK, or a code with @ret_refusal filled in.
 */
enum tool_error canary_open(struct canary canaries[CANARY_PLACES], enum canary_place place,
	struct workspaces *workspaces, struct refusal *ret_refusal);

/** The forks are not used any more. */
void canaries_leave_forks(struct canary canaries[CANARY_PLACES]);

/** Ends a run: no workspace is held, and the next run begins from the start. */
void canaries_close(struct canary canaries[CANARY_PLACES]);
