/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The descriptors that each program is started with. All others are closed before the exec, and
 * descriptors that a program opens itself are O_CLOEXEC. 0, 1 and 2 are /dev/null, except 2 of
 * cloisterd and the spawner, which is the log. A command has 0, 1 and 2 and no others.
 */

#define FD_SPAWNER_CHANNEL 3 /* socketpair with cloisterd, both ways */
/* O_PATH: directory of the managed workspaces; /dev/null if there is none */
#define FD_SPAWNER_MANAGED 4
#define FD_SPAWNER_CGROUP  5 /* directory of the delegated cgroup, if there is one */

#define FD_WORKER_DOWN 3 /* socketpair: requests and descriptors from cloisterd */
#define FD_WORKER_UP   4 /* socketpair: reports to cloisterd */
#define FD_WORKER_TREE 5 /* detached mount of the workspace, until set-up has attached it */
/* Detached mount of the workspace's kept home; /dev/null if the home is temporary. */
#define FD_WORKER_HOME 6
/*
 * Socket with the spawner, until set-up has used it. The spawner sends the workspace's private
 * tmpfs if an earlier cell has left one; the worker sends the one that it uses.
 */
#define FD_WORKER_PRIVATE 7
/* Detached mount of the workspace's cgroup, if cgroups are delegated. */
#define FD_WORKER_CGROUP 8
/* User namespace that commands enter, with root_inside; without cgroups 8 is then /dev/null. */
#define FD_WORKER_INSIDE 9

#define FD_FILES_DOWN 3 /* socketpair: requests from cloisterd, no descriptors */
#define FD_FILES_UP   4 /* socketpair: results to cloisterd */
#define FD_FILES_TREE 5 /* detached mount of the workspace, until set-up has attached it */
/* Detached read-only mounts of the workspace's layers; /dev/null if it has none. */
#define FD_FILES_LAYERS 6

/* Detached mount of the archive, a file, or of the image's directory. */
#define FD_UNPACK_SOURCE 3
#define FD_UNPACK_TARGET 4 /* detached mount of the empty directory that becomes the template */
#define FD_UNPACK_REPORT 5 /* pipe: one struct unpack_report to cloisterd */

/* Stream socketpair with cloisterd, both ways, where cloisterd starts cloister-egress itself. */
#define FD_EGRESS_CHANNEL 3
/* Pipe to the first process of cloister-egress, where a service manager starts it. */
#define FD_EGRESS_PARENT 3

/* cloisterd --connection-fd=3: the only client of a private instance. */
#define FD_PRIVATE_CONNECTION 3
