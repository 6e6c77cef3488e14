/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probes of the self-test: const data. A probe's row is that of SECURITY.md's table of escape
 * classes; tests/security/test_threat_table.py holds the two to each other.
 */

#include <stddef.h>

enum probe_kind {
	PROBE_CALL,    /* tool.call with the params @how: its answer is a code, or OK */
	PROBE_UNREAD,  /* as PROBE_CALL, of a client that does not read its answers */
	PROBE_COUNT,   /* as PROBE_CALL for a listing or a search: "OK" and how much it found */
	PROBE_SHELL,   /* run_command of @how: the first line of its output */
	PROBE_PROGRAM, /* the probe program's own probe of this name, together with its neighbours
			*/
	PROBE_ALONE,   /* likewise, in a command of its own */
	PROBE_OPEN,    /* opening the directory @how as a workspace */
	PROBE_MAKE,    /* making the managed workspace @how beside the canary */
};

struct selftest_probe {
	const char *row;
	const char *name;
	enum probe_kind kind;
	const char *how;    /* NULL for the program's */
	const char *wanted; /* the answer; where hosts rightly differ, several with "|" between */
};

extern const struct selftest_probe selftest_suite[];
extern const size_t selftest_suite_count;

#define SELFTEST_PROBES_MAX 256

/* What the canary is made of before the first probe: a shell command. */
extern const char selftest_set_up[];
/* And emptied with afterwards. */
extern const char selftest_tear_down[];
