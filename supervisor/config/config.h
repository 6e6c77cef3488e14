/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The configuration as the rest of cloisterd sees it: read whole or not at all, then never changed.
 * A reload makes another one (config_reload.h); who still needs the old one holds it.
 */

#include "common/config/config_complaints.h"
#include "supervisor/config/tenant.h"

struct config_source;

/* Whose ids workspaces have: all cloisterd's own, or each one of its user's subordinate ids. */
enum config_mode { CONFIG_MODE_USER, CONFIG_MODE_SYSTEM };
enum config_tenants { CONFIG_TENANTS_EXPECTED, CONFIG_TENANTS_NONE };

/* The section [cloister]. Strings are NULL where it says nothing. */
struct config_host {
	char *agent_socket;
	uint64_t agent_socket_mode;
	char *control_socket;
	char *state_dir;
	uint64_t audit;   /* enum audit_mode */
	char *audit_file; /* NULL: audit/audit.log in the state directory */
	char *user;       /* to become when started as root */
	uint64_t mode;    /* enum config_mode */
	struct id_list admin_groups, observer_groups;
	uint64_t connections;
	uint64_t connections_per_user;
	uint64_t commands;  /* at once, of all tenants */
	uint64_t file_jobs; /* likewise */
	uint64_t tenants;   /* enum config_tenants */
	uint64_t umask;     /* of commands and files processes */
	uint64_t workspace_idle_ms;
	uint64_t drain_ms; /* what SIGTERM leaves to calls in flight */
	uint64_t selftest; /* enum selftest_mode */
	uint64_t selftest_interval_ms;
	uint64_t spare_cells;
	struct string_list require;
};

struct config {
	unsigned references;
	struct config_host host;
	struct tenant **tenants; /* in the order of the files */
	size_t n_tenants;
	bool from_file; /* otherwise user mode with one tenant */
};

/** Opens the directory of the configuration file @path, and what is needed to read it again after
 * lock-down. 0 or -errno. */
int config_source_open(const char *path, struct config_source **ret);

/**
 * From now on names of users and groups are read from /etc/passwd and /etc/group, and names that
 * only NSS knew keep the ids they had. NSS loads libraries and connects sockets, which lock-down
 * forbids.
 */
void config_source_lock(struct config_source *source);

/** The path of the drop-ins' directory, malloc'ed; NULL: out of memory. */
char *config_source_drop_ins(const struct config_source *source);

/** NULL is fine. */
void config_source_free(struct config_source *source);

/**
 * Reads the file of @source and its drop-ins. Every mistake in any of them is said to @complaints;
 * with one or more the result is -EINVAL and there is no configuration. 0 and a reference in *ret;
 * or another -errno.
 */
int config_load(const struct config_source *source, const struct config_complaints *complaints,
	struct config **ret);

/** User mode without a file: one tenant called @name, the user @uid, any directory it may open.
 * NULL: out of memory. */
struct config *config_user_mode(const char *name, uid_t uid);

/** Without tenants: what holds where nothing is said. NULL: out of memory. */
struct config *config_new(void);

/** Appends @tenant, whose reference is taken in any case. 0 or -ENOMEM. */
int config_add_tenant(struct config *config, struct tenant *tenant);

struct config *config_hold(struct config *config);
/** NULL is fine. */
void config_release(struct config *config);

/** How many workspaces all tenants together may have in use at once. */
uint64_t config_workspaces(const struct config *config);

struct tenant *config_find_tenant(const struct config *config, const char *name);

/** Whether two plain absolute paths are one, or one lies in the other. */
bool config_paths_overlap(const char *a, const char *b);
