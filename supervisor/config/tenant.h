/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tenant: who may act for it, what they may open and how much of the host they may use. Made from
 * one section of the configuration (config_load.c) and never changed afterwards: a reload makes new
 * ones, and what began under an old one keeps it by a reference. Absent policy means deny: a tenant
 * without users and groups may be used by nobody, one without roots opens no directory.
 */

#include "common/config/lists.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct command_policy;
struct directory_id;
struct peer_credentials;
struct tenant_usage;

/* Each with its default and its hard maximum in common/limits.h, config_keys.c says which. */
struct tenant_limits {
	uint64_t command_timeout_ms; /* where neither model nor program names one */
	uint64_t command_timeout_max_ms;
	uint64_t file_timeout_ms;
	uint64_t output_kept_bytes;  /* of each stream */
	uint64_t output_total_bytes; /* likewise */
	uint64_t connections;
	uint64_t calls; /* in flight, of all connections */
	uint64_t calls_per_connection;
	uint64_t workspaces;          /* in use at once */
	uint64_t workspaces_existing; /* managed ones, in use or not */
	uint64_t commands;            /* at once, in all workspaces */
	uint64_t commands_per_workspace;
	uint64_t queue_length; /* calls that wait for their turn */
	uint64_t queue_ms;     /* and how long each does */
	/* Of one command, and of a workspace with all that runs in it. */
	uint64_t command_memory_bytes;
	uint64_t workspace_memory_bytes;
	uint64_t command_processes;
	uint64_t workspace_processes;
	uint64_t cpu_weight;
	uint64_t cpu_max_percent; /* of one CPU; 0: as much as there is */
	uint64_t io_weight;
	uint64_t tmp_bytes;
	uint64_t file_size_bytes;
	uint64_t process_data_bytes; /* 0: no limit */
	uint64_t open_files;
};

enum tenant_durability { TENANT_DURABLE, TENANT_FAST };

struct tenant {
	unsigned references;
	char *name;
	struct id_list users, groups;
	struct root_list roots;
	bool managed;       /* has managed workspaces */
	bool network_roots; /* the spawner's: what servers say of owners is believed */
	bool any_root;      /* user mode without a configuration: whatever the user may open */
	uint64_t weight;
	uint64_t network;    /* 0: none; there is no other */
	uint64_t durability; /* enum tenant_durability, where a call does not say */
	struct string_list readonly_paths;
	struct string_list environment;      /* NAME=VALUE */
	struct string_list blocked_patterns; /* as given; the policy is made of them */
	struct tenant_limits limits;
	struct command_policy *policy;
	/* What it uses now (schedule/usage.h); NULL until it is served. */
	struct tenant_usage *usage;
	void (*usage_release)(struct tenant_usage *usage);
};

/** A tenant that may be used by nobody, with every setting's default and no policy yet. NULL: out
 * of memory. */
struct tenant *tenant_new(const char *name);

struct tenant *tenant_hold(struct tenant *tenant);
/** NULL is fine. */
void tenant_release(struct tenant *tenant);

/** Whether @peer is one of its users or in one of its groups. */
bool tenant_admits(const struct tenant *tenant, const struct peer_credentials *peer);

/**
 * Whether a directory is one of the tenant's roots or lies below one, by the @n ids of it and of
 * what it lies in (directory_parents_list): neither a symbolic link nor another name matters, and
 * nothing is looked up.
 */
bool tenant_allows_root(const struct tenant *tenant, const struct directory_id *parents, size_t n);

/**
 * Below which of the tenant's roots @path (absolute) lies by its letters, whole components of it,
 * and where in @path what follows the root begins; "": it is the root itself. NULL: below none.
 */
const struct tenant_root *tenant_root_of(
	const struct tenant *tenant, const char *path, const char **ret_rest);
