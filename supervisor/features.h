/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a configuration may require of the host: one table, by name. */

#include <stdbool.h>

struct cgroup;
struct string_list;

/** Whether there is a feature of this name, whether or not this host has it. */
bool feature_is_known(const char *name);

/** The known names, for a message. Static storage. */
const char *feature_names(void);

/**
 * Tests each of @required by using it. 0, or -ENOTSUP with the first one that is missing and the
 * remedy in @ret_message (malloc'ed; NULL when out of memory).
 */
int features_check(
	const struct string_list *required, const struct cgroup *cgroup, char **ret_message);
