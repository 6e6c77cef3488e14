/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program in a workspace on the caller's terminal: a session with a terminal. Its output goes to
 * the caller's terminal unchanged, and its input is the caller's keys. `shell` and `run` use it.
 */

struct cloister;
struct json_object;

/**
 * Runs @command with the variables @env (an object, borrowed; NULL: none more). SIGTERM, SIGHUP,
 * SIGINT and SIGQUIT end it, and a second one does not wait for the end. Prints what goes wrong.
 * Returns its status as sh(1) would, or STATUS_OWN_FAILURE. raw_terminal_is_there().
 */
int interactive_run(struct cloister *cloister, const char *command, struct json_object *env);
