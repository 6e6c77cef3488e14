/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A compiled pattern of a search, shared by the threads that scan with it (pattern_scan.h), and the
 * second engines that are made for it when a scan needs them. pcre2api(3).
 */

#include "common/text.h"

#include <stdbool.h>
#include <stddef.h>

struct scan_pattern;

/* Why a pattern is not valid. */
struct scan_error {
	size_t offset; /* in the pattern */
	char message[128];
};

/**
 * Compiles @pattern: Perl's syntax, UTF-8, `^` and `$` at lines. Uses the JIT where the kernel lets
 * it, otherwise interprets. Returns 0, -EINVAL with *@ret_error set, or -ENOMEM.
 */
int scan_pattern_new(
	struct text pattern, struct scan_pattern **ret_pattern, struct scan_error *ret_error);

/* Who scans; for tests, which compare them. */
enum scan_engine {
	SCAN_BY_CHOICE, /* as is best: this is the one to use */
	SCAN_BY_PCRE2,
	SCAN_BY_AUTOMATON, /* wherever one can be made */
};

/** Before any scanner is made. Returns whether there is that engine for @pattern. */
bool scan_pattern_force_engine(struct scan_pattern *pattern, enum scan_engine engine);

void scan_pattern_free(struct scan_pattern *pattern);
