/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The parts of the root that commands see, each attached to the root in @context (struct
 * worker_setup). Runs in the worker. The root is a private tmpfs with the host's system read-only
 * in it, or, for a rootfs workspace, the workspace itself.
 */

#include "common/limits.h"
#include "common/wire/wire_spawner.h"
#include "worker/commands/command_ruleset.h"

/* The state of the worker while it builds its root, and later. */
struct worker_setup {
	enum workspace_kind kind;
	bool is_fork; /* a whole root that was made of a template */
	/* where commands see the workspace: "/workspace", its own path, or "/" */
	const char *visible;
	const char *home;     /* HOME, outside the workspace */
	bool keeps_home;      /* FD_WORKER_HOME is a mount */
	bool has_network;     /* commands reach hosts over cloister-egress */
	bool allows_filters;  /* the tenant's command_filters = allow */
	const char *readonly; /* the tenant's readonly_paths on the host, one a line */
	uint64_t tmp_bytes, file_size_bytes, data_bytes;
	uint32_t open_files, watches;
	uint64_t cookie; /* filter cookie: worker/filters/filter_cookie.h */
	int listener;    /* worker/commands/unotify.h */
	struct command_ruleset ruleset;
	char failed[LIMIT_NAME_BYTES +
		    1];  /* the failed step, when more can be said than its name */
	int root;        /* mount of the new root while it is built, then -1 */
	int private;     /* mount of the private tmpfs until the spawner has another */
	int inside;      /* user namespace that commands enter; -1: none (root_inside) */
	int queues;      /* mount of the message queues, until the Landlock rules take it */
	int queue_names; /* root of that mount, open for reading; -1: the kernel has none */
	bool begun;      /* worker_setup_ahead was called */
	bool ahead;      /* and it has built the root */
};

int root_make(void *context); /* the tmpfs, or the workspace's tree, mounted over "/" */
int root_make_points(
	void *context); /* mount points that a fork's root lacks: worker/root_points.h */
int root_bind_system(void *context); /* /usr, and /bin, /lib*, /sbin as the host has them */
int root_write_etc(void *context);   /* passwd, group, hosts, hostname, nsswitch.conf; a few of the
					host's files */
int root_show_processors(void *context); /* /sys/devices/system/cpu, for lscpu(1) and others */
int root_show_nothing(void *context);    /* no block devices and no logins, lsblk(8) and last(1) */
int root_show_packages(void *context);   /* dpkg(1)'s database, where the host has one */
int root_make_private(void *context);    /* /tmp, /run, home and /dev/shm: one bounded tmpfs */
/* sets the real size of a tmpfs that was made before it was known */
int root_bound_private(void *context);
int root_attach_kept(void *context);   /* over it, if an earlier cell has left one */
int root_share_private(void *context); /* gives the spawner a second mount of it */
int root_attach_home(void *context);   /* over HOME, if the home is kept */
int root_make_dev(void *context);      /* /dev with null zero full random urandom tty, pts */
int root_bind_readonly(void *context); /* the readonly_paths of the tenant's configuration */
int root_mount_proc(
	/*
	 * /proc; made while an unmasked proc is still in sight, since later it would fail with
	 * EPERM
	 */
	void *context);
int root_attach_workspace(void *context); /* the workspace at its visible path */
int root_enter(void *context);            /* pivot_root(2): the host's root is out of reach */
int root_leave_host(void *context);       /* unmounts the host's root */
/*
 * Makes every cgroup file system in sight read-only. A workspace that is a whole root contains the
 * host's, and through it commands could change the limits of this and of the user's other groups.
 */
int root_protect_cgroups(void *context);
int root_make_read_only(void *context);
/** Unmounts the mounts of root_make() and of the steps after it. Returns 0 or -errno. */
int root_unmake(struct worker_setup *setup);
