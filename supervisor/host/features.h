/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The table of host features that a configuration may require, by name. */

#include <stdbool.h>
#include <stdio.h>

struct cgroup;
struct string_list;

struct feature_report {
	const char *name;
	const char *cost;   /* the consequence of its absence */
	const char *remedy; /* how to get it */
	bool present;
};

/** Tests every feature once, for features_each() and features_check(). Call it before lock-down. */
void features_probe(const struct cgroup *cgroup);

/** Gives the result for each feature to @each. */
void features_each(void (*each)(void *context, const struct feature_report *report), void *context);

/**
 * Prints the result for each feature as cloisterctl doctor does. Returns whether all are present.
 */
bool features_print(FILE *stream);

/** Whether there is a feature of this name, on this host or not. */
bool feature_is_known(const char *name);

/** Whether features_probe() found it. */
bool feature_is_present(const char *name);

/**
 * Returns how to get a feature that features_probe() did not find; NULL if there is no such
 * feature. Static storage.
 */
const char *feature_remedy(const char *name);

/** Returns the known names, for a message. Static storage. */
const char *feature_names(void);

/**
 * Checks that features_probe() found each of @required. Returns 0, or -ENOTSUP with the first
 * missing feature and its remedy in @ret_message (malloc'ed; NULL if memory is out).
 */
int features_check(const struct string_list *required, char **ret_message);
