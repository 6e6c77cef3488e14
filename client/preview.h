/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prints what a command with --preview has changed, and keeps or undoes it. */

struct cloister;
struct invocation;
struct json_object;

/**
 * Prints @diff, asks on a terminal whether to keep the changes, and keeps or undoes them. @diff:
 * the member "diff" of the observation; NULL: there is nothing to decide on. Returns @status, or
 * STATUS_OWN_FAILURE after printing why.
 */
int preview_decide(struct cloister *cloister, const struct invocation *invocation,
	struct json_object *diff, int status);
