/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration for the rest of cloisterd. It is read completely or not at all and never
 * changed afterwards. A reload makes a new one (config_reload.h); parts that still need the old one
 * hold a reference.
 */

#include "supervisor/config/tenant.h"

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

struct config {
	unsigned references;
	struct config_host host;
	struct tenant **tenants; /* in the order of the files */
	size_t n_tenants;
	bool from_file; /* otherwise user mode with one tenant */
};

/**
 * Makes the configuration of user mode without a file: one tenant called @name with the user @uid,
 * which may open any directory that this user can. Returns NULL if memory is out.
 */
struct config *config_user_mode(const char *name, uid_t uid);

/** Makes a configuration with the defaults and without tenants. Returns NULL if memory is out. */
struct config *config_new(void);

/** Appends @tenant. Takes its reference, also on failure. Returns 0 or -ENOMEM. */
int config_add_tenant(struct config *config, struct tenant *tenant);

struct config *config_hold(struct config *config);
/** NULL is allowed. */
void config_release(struct config *config);

/** Reads the disk classes of @host, which have been checked. */
void config_disk_classes(const struct config_host *host, struct disk_classes *ret);

/** Returns how many workspaces all tenants together may have in use at once. */
uint64_t config_workspaces(const struct config *config);

/** Whether a tenant has network = egress. */
bool config_has_network(const struct config *config);

/** Whether a tenant has root_inside = yes. */
bool config_has_root_inside(const struct config *config);

struct tenant *config_find_tenant(const struct config *config, const char *name);
