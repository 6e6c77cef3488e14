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
 * Compiles @pattern: Perl's syntax, UTF-8, `^` and `$` at lines. Uses the JIT if the kernel permits
 * it, otherwise interprets. Returns 0, -EINVAL with *@ret_error set, or -ENOMEM.
 */
int scan_pattern_new(
	struct text pattern, struct scan_pattern **ret_pattern, struct scan_error *ret_error);

/* The engine to use; tests compare them. */
enum scan_engine {
	SCAN_BY_CHOICE, /* the better one: use this */
	SCAN_BY_PCRE2,
	SCAN_BY_AUTOMATON, /* wherever one can be made */
};

/** Call it before any scanner is made. Returns whether that engine exists for @pattern. */
bool scan_pattern_force_engine(struct scan_pattern *pattern, enum scan_engine engine);

void scan_pattern_free(struct scan_pattern *pattern);
