/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's command line, and what holds where it says nothing. */

#include <stdbool.h>
#include <sys/types.h>

struct config_host;

struct options {
	const char *config;   /* the file; NULL: user mode */
	bool check;           /* only look at it */
	char *agent_socket;   /* NULL: a private instance has none */
	char *state_dir;      /* likewise */
	char *control_socket; /* NULL: nobody administers */
	char *user;           /* to become, when started as root; NULL: none */
	int connection_fd;    /* of a private instance's one client, or -1 */
	struct {
		bool set;
		dev_t dev;
		ino_t ino;
		uid_t uid;
	} only_root;              /* the one directory that a private instance opens */
	int agent_fd, control_fd; /* sockets that the service manager passed, or -1 */
};

/** Reads @argv. On --help, --version or a mistake prints and exits, with 0 or 2. */
void options_read(int argc, char **argv, struct options *ret_options);

/**
 * Fills in what the command line left open: from @host, then $XDG_RUNTIME_DIR/cloister/agent.sock
 * and $XDG_STATE_HOME/cloister, as the XDG base directory specification says. As the user that it
 * runs as. 0, or -errno with a sentence in @ret_message (static) when there is no default to be
 * had.
 */
int options_complete(
	struct options *options, const struct config_host *host, const char **ret_message);

void options_done(struct options *options);
