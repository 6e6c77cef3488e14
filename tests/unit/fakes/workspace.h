/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * In place of supervisor/workspace/workspace.c, the functions that calls use: a workspace that
 * writes down what a call does to it. The test plays the rest: it begins the entry, and gives it
 * frames.
 */

#include "supervisor/workspace/workspace.h"

#define FAKE_WORKSPACE_FDS 3

struct workspace {
	size_t users;
	struct workspace_entry *entry; /* has entered; NULL: none has */
	bool heard;                    /* what workspace_has_heard() says */
	char log[256];                 /* "enter run body terminate kill cancel ..." */
	int fds[FAKE_WORKSPACE_FDS];   /* of a command, which the test closes */
	unsigned n_fds;
	char request[8192]; /* the payload that came last */
	size_t request_len;
};

/** What has happened since this was asked last: words, each with a space before. */
const char *fake_workspace_log(struct workspace *workspace);

/** Closes what a command got. */
void fake_workspace_close(struct workspace *workspace);
