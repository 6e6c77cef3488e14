/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cloister-worker: the parts of the root that commands see, each attached to the mount in @context
 * (struct worker_setup). The root is a private tmpfs with the host's system read-only in it, or,
 * for a rootfs workspace, the workspace.
 */

struct worker_setup;

int root_make(void *context);         /* the tmpfs, or the workspace's tree, mounted over "/" */
int root_bind_system(void *context);  /* /usr, and /bin, /lib*, /sbin as the host has them */
int root_write_etc(void *context);    /* passwd, group, hosts, hostname, nsswitch.conf; a few of the
					 host's files */
int root_make_private(void *context); /* /tmp, /run, home and /dev/shm: one bounded tmpfs */
int root_bound_private(void *context); /* of one that was made before its bound was known */
int root_make_dev(void *context);      /* /dev with null zero full random urandom tty, pts */
int root_bind_readonly(void *context); /* what the tenant's configuration adds to the system */
int root_mount_proc(
	void *context); /* while an unmasked proc is still in sight: later it would be EPERM */
int root_attach_workspace(void *context); /* at its visible path */
int root_enter(void *context);            /* pivot_root: the host's root is out of reach */
int root_leave_host(void *context);       /* and gone */
/* Every cgroup file system in sight: a workspace that is a whole root has the host's, and with it
 * the limits of this and other groups of the user. */
int root_protect_cgroups(void *context);
int root_make_read_only(void *context);
/** Takes away what root_make and those after it have made. 0 or -errno. */
int root_unmake(struct worker_setup *setup);
