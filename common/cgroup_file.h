/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Access to a cgroup through a descriptor of its directory in the cgroup2 file system. Files are
 * opened relative to that descriptor, never by a path. cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_FILE_BYTES 4096 /* the longest file that is read; a longer one is refused */

/* The controllers that cloister uses, as a bit mask. */
enum {
	CGROUP_MEMORY = 1 << 0,
	CGROUP_PIDS = 1 << 1,
	CGROUP_CPU = 1 << 2,
	CGROUP_IO = 1 << 3,
	CGROUP_CONTROLLERS_END = 1 << 4,
};

/** Writes @value to the file @name of @group. Returns 0 or -errno. */
int cgroup_write(int group, const char *name, const char *value);
int cgroup_write_number(int group, const char *name, uint64_t value);

/**
 * Reads the file @name of @group into @buffer of CGROUP_FILE_BYTES bytes and stores the text,
 * borrowed and NUL-terminated, in @ret. Returns 0 or -errno; -EMSGSIZE if the file is longer.
 */
int cgroup_read(int group, const char *name, char *buffer, struct text *ret);

/**
 * Reads the file @name of @group, which holds one number. Returns 0 or -errno; -EBADMSG if it holds
 * anything else.
 */
int cgroup_read_number(int group, const char *name, uint64_t *ret);

/**
 * Finds the value of @key in @text, a flat-keyed file such as memory.events. Returns 0, -ENOENT if
 * there is no such line, or -EBADMSG if its value is not a number.
 */
int cgroup_key(struct text text, const char *key, uint64_t *ret);

/**
 * Adds up the bytes of all devices in @text, the content of an io.stat file. Returns 0 or -EBADMSG.
 */
int cgroup_io_total(struct text text, uint64_t *ret_read, uint64_t *ret_written);

/**
 * Returns the controllers that a list such as cgroup.controllers names, as bits; names that
 * cloister does not use are ignored.
 */
unsigned cgroup_controllers(struct text text);

/**
 * Enables the @wanted controllers for the groups below @group. Returns the enabled controllers; a
 * controller that cannot be enabled is missing from the result.
 */
unsigned cgroup_enable_below(int group, unsigned wanted);

/**
 * Kills every process in @group and below it, also frozen ones, where the kernel has cgroup.kill.
 */
void cgroup_kill(int group);

/**
 * Kills the processes in the group @name of @parent and removes it with all groups below it,
 * however deep they are nested. Returns 0, -ENOENT, or -EBUSY if a process is still there at
 * @deadline (monotonic.h); even a reaped process may stay in its group for a moment. With a
 * deadline in the past it tries once.
 */
int cgroup_remove(int parent, const char *name, uint64_t deadline);
