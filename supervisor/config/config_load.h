/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Turns the files of the configuration into a configuration or a list of mistakes. */

#include "common/config/config_complaints.h"

struct config;
struct config_source;

/**
 * Opens the directory of the configuration file @path, and everything that reading it again after
 * lock-down needs. Returns 0 or -errno.
 */
int config_source_open(const char *path, struct config_source **ret);

/**
 * From now on, finds users and groups in /etc/passwd and /etc/group; names that only NSS knew keep
 * their ids. NSS loads libraries and connects sockets, which lock-down forbids.
 */
void config_source_lock(struct config_source *source);

/** Returns the path of the drop-in directory, malloc'ed, or NULL if memory is out. */
char *config_source_drop_ins(const struct config_source *source);

/** NULL is allowed. */
void config_source_free(struct config_source *source);

/**
 * Adds @path to the read-only paths of the tenant of user mode without a file, as readonly_paths
 * does. Reports a mistake to @complaints, as of the "command line". Returns 0 or -EINVAL.
 */
int config_show_path(
	struct config *config, const char *path, const struct config_complaints *complaints);

/** The same for egress_private. */
int config_allow_private(
	struct config *config, const char *network, const struct config_complaints *complaints);

/** The same for egress_allow, with which that tenant has network = egress. */
int config_allow_host(
	struct config *config, const char *rule, const struct config_complaints *complaints);

/** The same for a variable of commands, NAME=VALUE, as environment sets it. */
int config_set_variable(
	struct config *config, const char *variable, const struct config_complaints *complaints);

/**
 * Reads the file of @source and its drop-ins. Reports every mistake to @complaints; with any
 * mistake it returns -EINVAL and no configuration. Returns 0 and a reference in *ret, or another
 * -errno.
 */
int config_load(const struct config_source *source, const struct config_complaints *complaints,
	struct config **ret);
