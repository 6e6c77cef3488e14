/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The sections of the configuration as structures, whose fields config_keys.c sets. */

#include "common/config/disk_classes.h"
#include "common/config/lists.h"

#include <stdbool.h>
#include <stdint.h>

struct command_policy;
struct tenant_usage;

/* The ids of workspaces: all cloisterd's own, or for each a subordinate id of cloisterd's user. */
enum config_mode { CONFIG_MODE_USER, CONFIG_MODE_SYSTEM };
enum config_tenants { CONFIG_TENANTS_EXPECTED, CONFIG_TENANTS_NONE };

/* The section [cloister]. A string that is not set is NULL. */
struct config_host {
	char *agent_socket;
	uint64_t agent_socket_mode;
	char *control_socket;
	char *state_dir;
	uint64_t state_free_min_bytes, memory_free_min_bytes; /* less is unhealthy; 0: never */
	uint64_t state_files_min; /* files that there may still be; less is unhealthy; 0: never */
	uint64_t audit;           /* enum audit_mode */
	char *audit_file;         /* NULL: audit/audit.log in the state directory */
	uint64_t audit_size_bytes;
	uint64_t audit_files;      /* full files that are kept; 0: no file is ever full */
	char *user;                /* the user to become when started as root */
	char *egress_socket;       /* where cloister-egress connects; NULL: cloisterd starts it */
	char *egress_user;         /* the user of one that connects; NULL: DEFAULT_EGRESS_USER */
	struct id_list gate_users; /* of cloister-gate */
	struct string_list egress_resolver; /* cloister-egress reads these two */
	char *egress_ca;
	uint64_t mode; /* enum config_mode */
	struct id_list admin_groups, observer_groups;
	uint64_t connections;
	uint64_t connections_per_user;
	uint64_t commands;         /* running at once, of all tenants */
	uint64_t commands_per_cpu; /* for each CPU, at any load of the CPUs; 0: any number */
	uint64_t file_jobs;        /* running at once, of all tenants */
	uint64_t journal;          /* enum journal_mode */
	uint64_t tenants;          /* enum config_tenants */
	uint64_t umask;            /* of commands and files processes */
	uint64_t workspace_idle_ms;
	uint64_t template_memory_bytes; /* for templates, of all tenants; 0: none */
	uint64_t cells_kept;            /* that stay open without a call; 0: all */
	uint64_t drain_ms;              /* time that SIGTERM leaves to calls in flight */
	uint64_t retire_ms; /* time for running calls and sessions after another generation has
			       taken over */
	uint64_t selftest;  /* enum selftest_mode */
	uint64_t selftest_interval_ms;
	uint64_t spare_cells;
	struct string_list require;
	struct string_list disk_classes; /* as written: common/config/disk_classes.h */
};

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
	uint64_t watches;
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
