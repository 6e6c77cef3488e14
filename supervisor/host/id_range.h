/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * System mode: the subordinate ids of the user that cloisterd runs as. The spawner's user namespace
 * maps that user to 0 and the range from 1, and each workspace is one id of the range. What is used
 * here before lock-down is start-up's alone. subuid(5), user_namespaces(7), newuidmap(1).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct id_range {
	uid_t uid_first;
	gid_t gid_first;
	uint32_t count; /* of both */
};

/**
 * The largest range of the user that we are in @etc/subuid and the largest in @etc/subgid ("/etc"
 * outside of tests), as far as both reach. 0; -ENOENT: it has none; -EINVAL: what is there cannot
 * be used; or another -errno.
 */
int id_range_find(const char *etc, struct id_range *ret);

/** Whether we can write any map ourselves (CAP_SETUID and CAP_SETGID). capabilities(7) */
bool id_range_can_map(void);

/** Whether newuidmap(1) and newgidmap(1) are installed. */
bool id_range_has_helpers(void);

/**
 * Writes the maps of the process @pid, which waits in a user namespace that it has made: `0 US 1`
 * and `1 FIRST COUNT`. With the capabilities by ourselves, after which they are given up for good;
 * else by the helpers. 0 and @range is what id_range() says from now on; or -errno with a sentence
 * in @ret_message (malloc'ed, may be NULL).
 */
int id_range_map(const struct id_range *range, pid_t pid, char **ret_message);

/** The range in use; NULL: user mode. */
const struct id_range *id_range(void);
