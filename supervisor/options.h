/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's command line, and what holds where it says nothing. */

struct options {
	char *agent_socket; /* NULL: a private instance has none */
	char *state_dir;    /* likewise */
	const char *user;   /* to become, when started as root; NULL: none */
	int connection_fd;  /* of a private instance's one client, or -1 */
};

/**
 * Reads @argv. On --help, --version or a mistake prints and exits, with 0 or 2. Defaults:
 * $XDG_RUNTIME_DIR/cloister/agent.sock and $XDG_STATE_HOME/cloister, as the XDG base directory
 * specification says. 0, or -errno with a sentence in
 * @ret_message (static) when there is no default to be had.
 */
int options_read(int argc, char **argv, struct options *ret_options, const char **ret_message);

void options_done(struct options *options);
