/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a compiled pattern, for scan_pattern.c and pattern_scan.c. */

#include "worker/files/automaton.h"
#include "worker/files/literal_find.h"
#include "worker/files/pattern_traits.h"
#include "worker/files/scan_pattern.h"

#include <pthread.h>
#include <stdatomic.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct scan_pattern {
	/*
	 * Lines end at a newline: for one line, and for bytes without carriage returns. The other
	 * is for many lines where some end with both, so that `$` matches before the two and `.`
	 * neither; NULL until it is needed.
	 */
	pcre2_code *code;
	_Atomic(pcre2_code *) crlf_code;
	char *source;
	size_t source_len;
	struct pattern_traits traits;
	enum pattern_view view;
	bool crosses_lines;   /* may match a newline */
	struct literal start; /* what every match begins with */
	char *start_bytes;
	enum scan_engine engine;
	pthread_mutex_t mutex; /* held while the automaton or crlf_code is made */
	_Atomic(struct automaton *) automaton;
	atomic_bool impossible;
	atomic_uint_fast64_t scanned; /* bytes, until there is an automaton */
};

/**
 * Makes the automaton, or waits for the thread that does; with @wait false it does not wait. NULL:
 * there is none, or not yet.
 */
const struct automaton *scan_pattern_make_automaton(struct scan_pattern *pattern, bool wait);

/** The automaton, if there is one now or it is time to make it for a scan of @len bytes. */
const struct automaton *scan_pattern_automaton(struct scan_pattern *pattern, size_t len);

/** What bytes with carriage returns are searched with; NULL: out of memory. */
const pcre2_code *scan_pattern_crlf_code(struct scan_pattern *pattern);
