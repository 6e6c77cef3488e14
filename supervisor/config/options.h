/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's command line, and the defaults of its options. */

#include "common/limits.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct config_host;

struct options {
	const char *config;   /* the file; NULL: user mode */
	bool check;           /* only check the configuration */
	bool doctor;          /* only report what the host lacks */
	bool take_over;       /* from the cloisterd that serves the state directory */
	bool if_replaced;     /* only if the serving daemon is another program */
	bool detach;          /* the started command returns when this daemon serves */
	char *agent_socket;   /* NULL: a private instance has none */
	char *state_dir;      /* NULL: a private instance has none */
	char *control_socket; /* NULL: no control socket */
	char *user;           /* the user to become when started as root; NULL: none */
	int connection_fd;    /* connection of a private instance's one client, or -1 */
	struct {
		bool set;
		dev_t dev;
		ino_t ino;
		uid_t uid;
	} only_root; /* the only directory that a private instance opens */
	const char *readonly_paths[LIMIT_READONLY_PATHS + 1]; /* ended by NULL */
	const char *allow_net[LIMIT_ALLOW_NET + 1];           /* rules, ended by NULL */
	const char *allow_private_net[LIMIT_ALLOW_NET + 1];   /* networks, likewise */
	const char *env[LIMIT_TENANT_ENV_COUNT + 1];          /* NAME=VALUE, ended by NULL */
	int spare_cells;                                      /* how many, -1: by default */
	bool has_tools;
	uint64_t tools;                      /* that are offered (enum tool_set), if has_tools */
	int agent_fd, control_fd, egress_fd; /* sockets passed by the service manager, or -1 */
};

/** Reads @argv. For --help, --version or a mistake it prints a message and exits with 0 or 2. */
void options_read(int argc, char **argv, struct options *ret_options);

/** Sets the state directory, unless it is given, from the configuration or to the default. */
void options_find_state(struct options *options, const struct config_host *host);

/**
 * Fills in options that the command line does not set: from @host, then
 * $XDG_RUNTIME_DIR/cloister/agent.sock and $XDG_STATE_HOME/cloister (XDG base directory
 * specification). Call it as the user that cloisterd runs as. Returns 0, or -errno with a sentence
 * in @ret_message (static) if there is no default.
 */
int options_complete(
	struct options *options, const struct config_host *host, const char **ret_message);

/**
 * Writes the read-only paths, one a line, as the spawner takes them. They must have been accepted
 * by config_show_path(), which bounds their length.
 */
void options_join_readonly_paths(const struct options *options, char ret[LIMIT_READONLY_BYTES]);

/**
 * Returns the rules of --allow-net, separated by blanks, malloc'ed; NULL: there are none. Before
 * them are the networks of --allow-private-net, with EGRESS_PRIVATE_WORD before each.
 */
char *options_join_allow_net(const struct options *options);

void options_done(struct options *options);
