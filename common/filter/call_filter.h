/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The system call filter of cloisterd, cloister-egress and cloister-gate, which these install on
 * themselves: calls that no list names get EPERM. seccomp(2), seccomp_rule_add(3).
 */

#include "common/cleanup.h"

#include <seccomp.h>

struct call_filter {
	/* beside the calls of event loops, of libraries and of the C library, which all make */
	const int *allowed;
	size_t n_allowed;
	const int *killing; /* only an attacker makes these */
	size_t n_killing;
	int (*add_conditional)(scmp_filter_ctx filter); /* calls that depend on their arguments */
};

/** Installs @filter on the process and its later threads. Returns 0, or -errno. */
int call_filter_install(const struct call_filter *filter);

/* For add_conditional; each returns 0, or -errno. */

/** Allows @call if one of its arguments is as @argument says. */
int call_filter_allow(scmp_filter_ctx filter, int call, struct scmp_arg_cmp argument);

/**
 * Kills the process at @call, with @n arguments as @arguments say. Does nothing in the build where
 * each refused call kills: there libseccomp accepts no such rule.
 */
int call_filter_kill(
	scmp_filter_ctx filter, int call, unsigned n, const struct scmp_arg_cmp *arguments);

/** Allows openat(2) only for reading, and signals only to the process itself, as abort(3) does. */
int call_filter_allow_reader(scmp_filter_ctx filter);
