/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where put copies its sources to, by the rules of cp -r: into a directory that is there, each
 * under its own name; a single source to a name that is not there, as that name. "DIR/." is the
 * content of DIR.
 */

struct session;
struct transfer;

struct put_target {
	char *directory; /* of the workspace; it may have to be made */
	char **names;    /* of each source in it: "./NAME", or "." for a directory's content */
	int n;
};

/**
 * Finds the target of @n @sources that are copied to @to. Returns a status, after printing why it
 * is not STATUS_OK; call put_target_done() in any case.
 */
int put_target_find(struct transfer *transfer, struct session *session, char *const *sources, int n,
	const char *to, struct put_target *ret);

/** Returns @script with the target's names as its arguments; malloc'ed, or NULL after printing. */
char *put_target_script(const struct put_target *target, const char *script);

void put_target_done(struct put_target *target);
