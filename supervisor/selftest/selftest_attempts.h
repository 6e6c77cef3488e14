/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probes that are no calls: requests that cloisterd makes itself. Each function begins the
 * current probe's, and has the next step made when its result is stored.
 */

#include "common/errors.h"

#include <stdbool.h>

struct selftest;

/** The request has ended with @error. */
void selftest_note_request(struct selftest *selftest, enum tool_error error);

void selftest_try_open(struct selftest *selftest, const char *path);
void selftest_try_make(struct selftest *selftest, const char *name);
void selftest_try_import(struct selftest *selftest, const char *archive);
void selftest_try_fork(struct selftest *selftest, const char *how);

/** The tenant that has a network tries to fork the template of the other one. */
void selftest_try_steal(struct selftest *selftest);

/** Shows the canary above a layer of cloisterd's id. */
void selftest_try_foreign(struct selftest *selftest);

/** Makes the forks. */
void selftest_try_forks(struct selftest *selftest);

/**
 * Whether the fork of the current probe is there. Otherwise it skips this probe and the later ones
 * of the same fork, and takes the next step.
 */
bool selftest_has_fork(struct selftest *selftest);

/** Removes the forks, if there are any. Returns whether it is under way, or was before the call. */
bool selftest_leave_forks(struct selftest *selftest);
