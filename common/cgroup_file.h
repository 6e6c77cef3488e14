/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A cgroup as a directory of the cgroup2 file system: its files are read and written relative to a
 * descriptor, never by a path. cgroups(7), Documentation/admin-guide/cgroup-v2.rst.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_FILE_BYTES 4096 /* of any file that is read here; a longer one is refused */

/* The controllers that cloister uses, as bits. */
enum {
	CGROUP_MEMORY = 1 << 0,
	CGROUP_PIDS = 1 << 1,
	CGROUP_CPU = 1 << 2,
	CGROUP_IO = 1 << 3,
	CGROUP_CONTROLLERS_END = 1 << 4,
};

/** Writes @value to @name in @group. 0 or -errno. */
int cgroup_write(int group, const char *name, const char *value);
int cgroup_write_number(int group, const char *name, uint64_t value);

/** Reads @name in @group into @buffer, CGROUP_FILE_BYTES long. 0 and the text (borrowed, a NUL
 * behind it), or -errno; -EMSGSIZE when it is longer. */
int cgroup_read(int group, const char *name, char *buffer, struct text *ret);

/** @name in @group, a file that is one number. 0 or -errno; -EBADMSG for something else. */
int cgroup_read_number(int group, const char *name, uint64_t *ret);

/** The value of @key in a flat-keyed @text such as memory.events. 0, -ENOENT without such a line,
 * -EBADMSG for one that is no number. */
int cgroup_key(struct text text, const char *key, uint64_t *ret);

/** The bytes of all devices in an io.stat. 0, or -EBADMSG. */
int cgroup_io_total(struct text text, uint64_t *ret_read, uint64_t *ret_written);

/** The controllers named in a list such as cgroup.controllers, as bits; unknown ones are none. */
unsigned cgroup_controllers(struct text text);

/** Makes the @wanted controllers available to the groups below @group. Those that then are, as
 * bits: what cannot be is left out. */
unsigned cgroup_enable_below(int group, unsigned wanted);

/** Kills what is in @group and in the groups below it, frozen or not, where the kernel has
 * cgroup.kill. */
void cgroup_kill(int group);

/**
 * Kills what is still in the group @name of @parent and removes it with all groups below it,
 * however deep. 0, -ENOENT, or -EBUSY when something in it is not gone at @deadline (monotonic.h):
 * also what has been reaped may be on its way out for a moment. A deadline that has passed is one
 * attempt.
 */
int cgroup_remove(int parent, const char *name, uint64_t deadline);
