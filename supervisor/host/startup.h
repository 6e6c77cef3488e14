/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The steps of cloisterd before lock-down: it takes its user, its resource limits and its
 * directories.
 */

/**
 * Becomes @user (NULL: none configured) if cloisterd is root of the host or of a container. Without
 * @user it refuses to run as root of the host and, in system mode, as root of a container. With
 * @keep_mapping CAP_SETUID and CAP_SETGID are kept for id_range_map(). Returns 0, or -errno with a
 * sentence in @ret_message (static) that says what to do. credentials(7).
 */
int startup_leave_root(const char *user, bool keep_mapping, const char **ret_message);

/**
 * Resets every signal to its default action and unblocks all, whatever the launcher had set: an
 * ignored SIGCHLD would reap children unseen, and ignored signals stay ignored in programs that are
 * executed. signal(7).
 */
void startup_reset_signals(void);

/**
 * Closes inherited descriptors except 0, 1, 2 and @keep descriptors from 3 on, and opens /dev/null
 * for a missing one of the first three.
 */
void startup_close_inherited(unsigned keep);

/**
 * Raises soft limits to the hard ones: RLIMIT_NOFILE, because each workspace takes eight or more,
 * and RLIMIT_SIGPENDING and RLIMIT_MSGQUEUE, which the kernel counts for all workspaces together;
 * each workspace has a share of these (worker/commands/worker_setup.c).
 */
void startup_raise_limits(void);

/** Returns how many files cloisterd may have open. */
uint64_t startup_file_limit(void);

/**
 * Call it after raising the limits. Returns 0, or -EMFILE with a sentence in @ret_message (static)
 * if RLIMIT_NOFILE is less than LIMIT_DESCRIPTORS_MIN.
 */
int startup_check_file_limit(const char **ret_message);

/**
 * Gives cloisterd and files processes priority over commands, because calls pass through them. Call
 * it before root is left. Where cloisterd has the right (CAP_SYS_NICE, RLIMIT_NICE), it lowers its
 * nice value, unless the administrator chose one, and that of its session, where the kernel gives
 * each session a CPU share (sched_autogroup_enabled, sched(7)). It changes only a session that it
 * leads, and none if the administrator chose a lower priority. The spawner and files processes stay
 * in that session; commands and searches have other sessions.
 */
void startup_come_first(void);

/**
 * Makes malloc keep freed memory up to LIMIT_MEMORY_KEPT_BYTES instead of returning it, which would
 * cost a page fault for every page of the next large answer. mallopt(3).
 */
void startup_keep_memory(void);

/**
 * Returns the name of the user that cloisterd runs as, or the number; malloc'ed, NULL if memory is
 * out.
 */
char *startup_tenant_name(void);

/** Looks up the user @name. Returns 0 or -ENOENT. */
int startup_find_user(const char *name, uid_t *ret);

/**
 * Makes @path and its missing parents, mode 0700, and opens it with O_PATH. Returns 0 or -errno.
 */
int startup_make_directory(const char *path, int *ret_fd);

/**
 * Makes the parent directory of the file @path, like startup_make_directory(). Returns 0 or -errno.
 */
int startup_make_parent(const char *path);

/**
 * Locks the state in @directory for as long as @ret_fd is open, by the file "lock" there, which
 * holds cloisterd's pid. flock(2). Returns 0; -EBUSY if another process has the lock, with its pid
 * in @ret_holder, or 0; or another -errno.
 */
int startup_lock_state(const char *directory, int *ret_fd, long *ret_holder);

/** Writes this process's pid to the file of the lock, which it holds. Returns 0 or -errno. */
int startup_sign_lock(int fd);

/** Whether @fd is the file of the lock of the state in the directory @state. */
bool startup_is_lock(int state, int fd);
