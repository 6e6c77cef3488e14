/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-worker: what System V and POSIX IPC keep when all processes are gone: shared memory,
 * semaphores and message queues of the workspace's IPC namespace. sysvipc(7), mq_overview(7).
 */

/**
 * Removes all of it, from the System V tables and from @queue_names, the root of a mount of the
 * POSIX message queues (-1: there are none). Four system calls where nothing was left. Only while
 * no command runs.
 */
void ipc_remains_remove(int queue_names);
