/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The probes of the self-test, constant data. The rows are those of doc/attacks.md, which
 * tests/security/test_threat_table.py compares.
 */

#include <stddef.h>

enum probe_kind {
	PROBE_CALL,   /* tool.call with the params @how: the answer is an error code, or OK */
	PROBE_UNREAD, /* like PROBE_CALL, by a client that does not read its answers */
	/* like PROBE_CALL for a listing or a search: "OK" and the number of results */
	PROBE_COUNT,
	PROBE_SHELL,   /* run_command of @how: the first line of its output */
	PROBE_PROGRAM, /* the probe program's probe of this name, in a batch with its neighbours */
	PROBE_ALONE,   /* like PROBE_PROGRAM, in a separate command */
	PROBE_LAYERS,  /* like PROBE_PROGRAM, above another layer, which is dropped afterwards
			*/
	PROBE_FOREIGN, /* shows the canary above a layer of another id, as its files: a code, or OK
			*/
	PROBE_EGRESS,  /* like PROBE_PROGRAM, where the tenant has a network: egress/canary.c */
	PROBE_EMPTY,   /* the same in a workspace that has narrowed its network to no host */
	PROBE_OPEN,    /* opens the directory @how as a workspace */
	PROBE_MAKE,    /* makes the managed workspace @how beside the canary */
	/*
	 * imports the archive @how of the canary, "." for its directory: a code, or "OK" and how
	 * many entries lost something
	 */
	PROBE_IMPORT,
	PROBE_FORK, /* makes a fork of the template @how; "*": a name of another tenant */
	/* freezes the canary as a template and makes forks of it: how, or a code */
	PROBE_FORKS,
	PROBE_FORKED,  /* like PROBE_PROGRAM, in one of them */
	PROBE_SIBLING, /* the same in another one */
	PROBE_ROOT,    /* the same in one that is a whole root, with root_inside */
	/* as PROBE_FORK of that template, by the tenant that has a network */
	PROBE_STEAL,
};

struct selftest_probe {
	const char *row;
	const char *name;
	enum probe_kind kind;
	const char *how;    /* NULL for the probe program */
	const char *wanted; /* the wanted answer; several with "|" between where hosts may differ */
};

extern const struct selftest_probe selftest_suite[];
extern const size_t selftest_suite_count;

#define SELFTEST_PROBES_MAX 400

/* The shell command that fills the canary before the first probe. */
extern const char selftest_set_up[];
/* The shell command that empties it afterwards. */
extern const char selftest_tear_down[];
