/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tenant: its users, the directories that they may open, and their limits. It is made from one
 * section of the configuration (config_load.c) and never changed: a reload makes new ones, and
 * calls that began under an old one keep a reference to it. Without policy everything is denied: a
 * tenant without users and groups admits no client, one without roots opens no directory.
 */

#include "common/config/disk_classes.h"
#include "common/config/lists.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct command_policy;
struct directory_id;
struct peer_credentials;
struct tenant_usage;

/* config_keys.c gives the default and the maximum of each. */
struct tenant_limits {
	uint64_t command_timeout_ms; /* where the call does not give one */
	uint64_t command_timeout_max_ms;
	uint64_t input_wait_ms; /* 0: a command may wait for input until its deadline */
	uint64_t file_timeout_ms;
	uint64_t output_kept_bytes;  /* of each stream */
	uint64_t output_shown_bytes; /* of an answer to a model */
	uint64_t output_total_bytes; /* of each stream */
	uint64_t connections;
	uint64_t calls; /* in flight, on all connections */
	uint64_t calls_per_connection;
	uint64_t workspaces;            /* in use at once */
	uint64_t workspaces_existing;   /* managed workspaces that exist, in use or not */
	uint64_t templates;             /* that exist; 0: none may be made */
	uint64_t template_memory_bytes; /* for templates in memory; the spawner enforces it */
	uint64_t commands;              /* running at once, in all workspaces */
	uint64_t commands_per_workspace;
	uint64_t queue_length; /* calls that may wait in the queue */
	uint64_t queue_ms;     /* the longest time that a call may wait */
	/* command_: one command; workspace_: a workspace with all its processes */
	uint64_t command_memory_bytes;
	uint64_t workspace_memory_bytes;
	uint64_t command_processes;
	uint64_t workspace_processes;
	uint64_t cpu_weight;
	uint64_t cpu_max_percent; /* of one CPU; 0: unlimited */
	uint64_t io_weight;
	uint64_t tmp_bytes;
	uint64_t home_bytes; /* of a kept home; the spawner sees to it */
	uint64_t file_size_bytes;
	uint64_t process_data_bytes; /* 0: unlimited */
	uint64_t open_files;
	uint64_t keys; /* calls with a key that are remembered; 0: such calls are refused */
	uint64_t key_horizon_ms;
	uint64_t sessions; /* running ones; 0: none may be started */
	uint64_t sessions_per_workspace;
	uint64_t session_lifetime_ms;
	uint64_t session_idle_ms;     /* without output and input; 0: as long as it lives */
	uint64_t session_detached_ms; /* without a connection that has the workspace open */
	uint64_t session_retention_ms;
};

enum tenant_durability { TENANT_DURABLE, TENANT_FAST };
enum tenant_network { TENANT_NETWORK_NONE, TENANT_NETWORK_EGRESS };
enum tenant_home { TENANT_HOME_TEMPORARY, TENANT_HOME_KEPT };

struct tenant {
	unsigned references;
	char *name;
	struct id_list users, groups;
	struct root_list roots;
	char *disk_class;       /* as written; NULL: the first one */
	struct disk_class disk; /* the limits of the class; bytes 0: there are no classes */
	bool managed;           /* may have managed workspaces */
	bool gate;              /* clients of gate_user may act for it */
	/* commands of its whole-root forks are root in a nested user namespace */
	bool root_inside;
	/* used by the spawner: trust the owners that network and FUSE file systems report */
	bool network_roots;
	/* user mode without a configuration: any directory that the user may open */
	bool any_root;
	uint64_t weight;
	uint64_t network; /* enum tenant_network */
	/* of its workspaces, that clients may reach: config_type.h, CONFIG_PORTS */
	uint64_t forward_ports;
	uint64_t egress_port; /* at which commands reach cloister-egress */
	/* cloister-egress reads these itself; here they are checked and shown */
	struct string_list egress_allow, egress_deny, egress_private, egress_secrets;
	char *egress_upstream;
	uint64_t egress_sni, egress_connections, egress_connect_rate;
	uint64_t egress_bytes_in, egress_bytes_out;
	uint64_t tools;      /* enum tool_set: the tools that its models are offered */
	uint64_t shell;      /* enum command_shell */
	uint64_t durability; /* enum tenant_durability, where the call does not say */
	uint64_t home;       /* enum tenant_home; the spawner sees to it */
	/* whether commands may install system call filters; used by the spawner, from its own copy
	 */
	uint64_t command_filters;
	struct string_list readonly_paths;
	struct string_list environment;      /* NAME=VALUE */
	struct string_list blocked_patterns; /* as written; the policy is compiled from them */
	struct tenant_limits limits;
	struct command_policy *policy;
	/* Its present use (schedule/usage.h); NULL until the tenant is served. */
	struct tenant_usage *usage;
	void (*usage_release)(struct tenant_usage *usage);
};

/**
 * Makes a tenant that admits no client, with the defaults of all settings and without a policy.
 * Returns NULL if memory is out.
 */
struct tenant *tenant_new(const char *name);

struct tenant *tenant_hold(struct tenant *tenant);
/** NULL is allowed. */
void tenant_release(struct tenant *tenant);

/** Whether @peer is one of its users or in one of its groups. */
bool tenant_admits(const struct tenant *tenant, const struct peer_credentials *peer);

/** Returns "temporary" or "kept": the home of its workspaces. Static. */
const char *tenant_home_name(const struct tenant *tenant);

/**
 * Whether a directory is one of the tenant's roots or lies below one. @ids are the directory and
 * its @n - 1 parents (directory_parents_list). Only ids are compared, so symbolic links and second
 * names do not matter, and no path is looked up.
 */
bool tenant_allows_root(const struct tenant *tenant, const struct directory_id *parents, size_t n);

/**
 * Finds the root that @path (absolute) lies below, by comparing whole components of the text.
 * Stores where in @path the part below the root begins; "" for the root itself. Returns NULL if
 * there is none.
 */
const struct tenant_root *tenant_root_of(
	const struct tenant *tenant, const char *path, const char **ret_rest);
