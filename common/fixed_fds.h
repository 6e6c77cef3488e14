/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The descriptors that each program is started with. Everything else is closed before the exec, and
 * what a program opens for itself is O_CLOEXEC. 0, 1 and 2 are /dev/null, except that cloisterd's
 * and the spawner's 2 is the log. A command has 0, 1 and 2 and nothing else.
 */

#define FD_SPAWNER_CHANNEL 3 /* socketpair with cloisterd, both ways */
#define FD_SPAWNER_MANAGED 4 /* O_PATH: where managed workspaces lie; /dev/null: nowhere */
#define FD_SPAWNER_CGROUP  5 /* the delegated cgroup's directory, only where there is one */

#define FD_WORKER_DOWN 3 /* socketpair: requests and descriptors from cloisterd */
#define FD_WORKER_UP   4 /* pipe: reports to cloisterd */
#define FD_WORKER_TREE 5 /* detached mount of the workspace, until set-up has attached it */
/* The workspace's cgroup, only where cgroups are delegated: a detached mount whose root it is. */
#define FD_WORKER_CGROUP 6

#define FD_FILES_DOWN 3 /* socketpair: requests from cloisterd, no descriptors */
#define FD_FILES_UP   4 /* pipe: results to cloisterd */
#define FD_FILES_TREE 5 /* detached mount of the workspace, until set-up has attached it */

/* cloisterd --connection-fd=3: the one client of a private instance. */
#define FD_PRIVATE_CONNECTION 3
