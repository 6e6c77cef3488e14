/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a configuration may require of the host: one table, by name. */

#include <stdbool.h>

struct cgroup;
struct string_list;

struct feature_report {
	const char *name;
	const char *cost;   /* what it is to be without it */
	const char *remedy; /* what to do about that */
	bool present;
};

/** Tries out every feature once, for features_each() and features_check(). Before lock-down. */
void features_probe(const struct cgroup *cgroup);

/** What features_probe() found, each given to @each. */
void features_each(void (*each)(void *context, const struct feature_report *report), void *context);

/** Whether there is a feature of this name, whether or not this host has it. */
bool feature_is_known(const char *name);

/** Whether features_probe() found it. */
bool feature_is_present(const char *name);

/** What to do where features_probe() did not find it; NULL: there is no such feature. Static
 * storage. */
const char *feature_remedy(const char *name);

/** The known names, for a message. Static storage. */
const char *feature_names(void);

/**
 * Whether features_probe() found each of @required. 0, or -ENOTSUP with the first one that is
 * missing and the remedy in @ret_message (malloc'ed; NULL when out of memory).
 */
int features_check(const struct string_list *required, char **ret_message);
