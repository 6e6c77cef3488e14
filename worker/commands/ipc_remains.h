/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Removes the System V and POSIX IPC objects that outlive the processes of a command: shared
 * memory, semaphores and message queues of the workspace's IPC namespace. Runs in the worker.
 * sysvipc(7), mq_overview(7).
 */

/**
 * Removes all System V objects, and all queues in @queue_names, the root of a mount of the POSIX
 * message queues (-1: none). Makes four system calls if there are none. Call it only while no
 * command runs.
 */
void ipc_remains_remove(int queue_names);
