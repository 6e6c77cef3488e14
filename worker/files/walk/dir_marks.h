/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs in the files process. Marks of writes on a directory, for other files processes that write
 * in it: those of other cloister instances too, which share neither memory nor a pid namespace. Any
 * process that can read the directory can set marks too. It can delay edits and sweeps there, and
 * do nothing else.
 *
 * A mark is a shared open file description lock on one byte of the directory, fcntl(2). A
 * directory has no bytes, so no program of a tenant locks one; flock(2) is of another kind and is
 * not noticed. The kernel drops a mark with the descriptor, so also with the process. On a network
 * file system only processes of one host see each other's marks.
 */

#include <stdbool.h>
#include <stdint.h>

/**
 * Opens the directory @parent, which may be an O_PATH descriptor, and marks that @call works in it.
 * Returns a descriptor that holds the mark, or -errno; -EOPNOTSUPP if the directory cannot be read,
 * or its file system has no locks.
 */
int dir_mark_call(int parent, uint64_t call);

/** Whether another descriptor than @dir, a readable directory, holds the mark of @call. */
bool dir_has_call(int dir, uint64_t call);

/**
 * Marks with @marks, which dir_mark_call() returned, that only this process replaces the file @name
 * by an edit. Waits while another process has that turn, with pauses that differ by @call. Returns
 * 0, -ETIME if LIMIT_EDIT_TURN_MS were not enough, or another -errno.
 */
int dir_take_turn(int marks, const char *name, uint64_t call);

/** Ends the turn. */
void dir_end_turn(int marks, const char *name);
