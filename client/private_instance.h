/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A private cloisterd for the duration of one command. It serves one connection, the other end of a
 * socketpair, and exits when that closes, so it ends when we die.
 */

#include <limits.h>

struct json_object;
struct private_instance;

struct private_options {
	const char *const *readonly_paths;    /* that commands see too; ended by NULL */
	const char *const *allow_net;         /* rules of hosts that they reach; ended by NULL */
	const char *const *allow_private_net; /* networks that these may be in; ended by NULL */
	struct json_object *env; /* variables of commands: an object of strings, or NULL */
	const char *tools;       /* that models are offered; NULL: as without the option */
};

/**
 * Writes the path of the first program @name that we may execute to @path: beside this program, or
 * installed. Returns 0, or -ENOENT after a complaint.
 */
int program_find(const char *name, char path[static PATH_MAX]);

/**
 * Starts a cloisterd. If this process is root of the host, it first opens @workspace (NULL: none)
 * and becomes its owner, or the user nobody, for good, because nothing in a workspace runs as root;
 * the cloisterd then opens that directory and no other. @options are borrowed until it has started.
 * A uid 0 that a user
 * namespace maps to another id is left as it is. Returns 0 with our end of the connection in
 * @ret_fd and the process in @ret_instance, or -errno after printing why: -EPERM if root owns
 * @workspace, or if more than one user could have chosen the directory.
 */
int private_instance_start(const char *workspace, const struct private_options *options,
	struct private_instance **ret_instance, int *ret_fd);

/**
 * Returns the canonical path of the directory that was opened as root, borrowed, or NULL if there
 * is none.
 */
const char *private_instance_directory(const struct private_instance *instance);

/**
 * Waits until the cloisterd has exited, which it does when the connection is closed, or kills it.
 * NULL is allowed.
 */
void private_instance_end(struct private_instance *instance);
