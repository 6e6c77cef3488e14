/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System mode: the subordinate ids of the user that cloisterd runs as. The spawner's user namespace
 * maps that user to 0 and the range from 1; each workspace runs as one id of the range. Only
 * id_range() may be called after lock-down. subuid(5), user_namespaces(7), newuidmap(1).
 */

#include "common/subordinate_ids.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** As subordinate_ids_find(), for our user. */
int id_range_find(const char *etc, struct id_range *ret);

/** Whether this process may write any id map (CAP_SETUID and CAP_SETGID). capabilities(7) */
bool id_range_can_map(void);

/** Whether newuidmap(1) and newgidmap(1) are installed. */
bool id_range_has_helpers(void);

/**
 * Writes the maps of the process @pid, which waits in a user namespace that it has created: `0 US
 * 1` and `1 FIRST COUNT`. With the capabilities cloisterd writes them itself and drops the
 * capabilities for good; otherwise the helpers do. Returns 0, and id_range() returns @range from
 * then on; or -errno with a sentence in @ret_message (malloc'ed, may be NULL).
 */
int id_range_map(const struct id_range *range, pid_t pid, char **ret_message);

/** Returns the range in use, or NULL in user mode. */
const struct id_range *id_range(void);
