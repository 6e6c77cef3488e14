/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much room the host has left: on the file system of the state directory, and of memory. A
 * thread looks every HEADROOM_LOOK_MS, because the file system may hang. Callers get the last
 * result and its age. It asks the kernel, and nothing in a workspace.
 */

#include <stdbool.h>
#include <stdint.h>

#define HEADROOM_LOOK_MS 5000

struct cgroup;
struct headroom;

struct headroom_view {
	bool has_state;       /* there is a state directory; otherwise the next seven say nothing */
	int64_t state_age_ms; /* since the last answer, or since the start without one */
	bool state_known;     /* there has been an answer */
	int state_error;      /* the errno of the last answer, or 0 */
	uint64_t state_free, state_size; /* bytes; free: for cloisterd's user */
	uint64_t state_files_free;       /* UINT64_MAX: this file system does not count them */
	uint64_t state_files;            /* that there may be, if it does */
	bool memory_known;
	uint64_t memory_free,
		memory_size; /* bytes, of the host or of the group, whichever has less */
};

/**
 * Opens the files that are read later; call it before lock-down. @state_fd is a directory in the
 * file system of the state (borrowed), or -1. Returns 0, or -ENOMEM.
 */
int headroom_new(int state_fd, const struct cgroup *cgroup, struct headroom **ret);

/** Starts the thread, after lock-down. Returns 0 or -errno. */
int headroom_start(struct headroom *headroom);

/** Stores what was last seen. Never waits for a file system. */
void headroom_look(struct headroom *headroom, struct headroom_view *ret);

/**
 * Whether the file system of the state has room for fewer than @min files, or for fewer than
 * LIMIT_STATE_FILES_PART of its files, whichever is less.
 */
bool headroom_lacks_files(const struct headroom_view *view, uint64_t min);

/** Waits a moment for the thread, and frees. NULL is allowed. */
void headroom_free(struct headroom *headroom);

/**
 * Finds how much memory is left in @meminfo, the content of /proc/meminfo. Returns 0, or -EBADMSG.
 */
int headroom_of_host(const char *meminfo, uint64_t *ret_free, uint64_t *ret_size);

/**
 * The same of a group, by its memory.max, memory.current and memory.stat: pages of files that are
 * not in use count as free, since the kernel takes them back first. Returns 0; -ENOENT if the group
 * has no limit; or -EBADMSG.
 */
int headroom_of_group(const char *max, const char *current, const char *stat, uint64_t *ret_free,
	uint64_t *ret_size);
