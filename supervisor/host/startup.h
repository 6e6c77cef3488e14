/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/* What cloisterd does once, before lock-down: who it runs as, and the directories that are its own.
 */

/**
 * Becomes @user (NULL: none named) if it is root, the host's or a container's. Without a user it
 * refuses to run as the host's root, and as a container's in system mode. 0, or -errno with a
 * sentence in
 * @ret_message (static) that says what to do. With @keep_mapping CAP_SETUID and
 * CAP_SETGID are kept, for id_range_map(). credentials(7).
 */
int startup_leave_root(const char *user, bool keep_mapping, const char **ret_message);

/**
 * Every signal's disposition becomes the default and none is blocked, whatever the launcher had: an
 * ignored SIGCHLD would reap children unseen, and what is ignored stays so in every program that is
 * executed. signal(7).
 */
void startup_reset_signals(void);

/** Closes what the launcher left open but 0, 1, 2 and @keep descriptors from 3 on, and opens
 * /dev/null where one of the three is missing. */
void startup_close_inherited(unsigned keep);

/**
 * Raises to what is allowed RLIMIT_NOFILE, since each workspace takes six descriptors, and what the
 * kernel counts for all workspaces together, RLIMIT_SIGPENDING and RLIMIT_MSGQUEUE: each has its
 * own share of them (worker/commands/worker_setup.c).
 */
void startup_raise_limits(void);

/** Once it is raised: 0, or -EMFILE and a sentence in @ret_message, static storage, where
 * RLIMIT_NOFILE is less than LIMIT_DESCRIPTORS_MIN. */
int startup_check_file_limit(const char **ret_message);

/**
 * Before root is left, if it is root: calls pass through cloisterd and files processes, which come
 * before what commands compute where cloisterd has the right to that (CAP_SYS_NICE, RLIMIT_NICE):
 * by its nice value, unless the administrator chose one, and by its session's, where the kernel
 * gives each session a share of the CPUs (sched_autogroup_enabled, sched(7)). Only of a session
 * that it leads: another's is not ours to prefer; and of none where the administrator's choice is
 * to come after others. The spawner and files processes stay in that session; commands and
 * searches, which take long, are none of it.
 */
void startup_come_first(void);

/**
 * Freed memory up to LIMIT_MEMORY_KEPT_BYTES is used again instead of being given back, which would
 * cost a page fault for every page of the next large answer. mallopt(3).
 */
void startup_keep_memory(void);

/** The name of the user it runs as, or the number; malloc'ed. NULL: out of memory. */
char *startup_tenant_name(void);

/** Makes @path and its missing parents, mode 0700, and opens it O_PATH. 0 or -errno. */
int startup_make_directory(const char *path, int *ret_fd);

/** Makes the directory that the file @path lies in, as startup_make_directory. 0 or -errno. */
int startup_make_parent(const char *path);

/**
 * Takes the lock on the state in @directory for as long as @ret_fd is open, by the file "lock"
 * there, which says the process's number. flock(2). 0; -EBUSY when another has it, with its number
 * in @ret_holder, or 0; or -errno.
 */
int startup_lock_state(const char *directory, int *ret_fd, long *ret_holder);
