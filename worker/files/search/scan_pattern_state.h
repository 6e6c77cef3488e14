/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a compiled pattern, for scan_pattern.c and pattern_scan.c. */

#include "worker/files/search/automaton.h"
#include "worker/files/search/literal_find.h"
#include "worker/files/search/pattern_traits.h"
#include "worker/files/search/scan_pattern.h"

#include <pthread.h>
#include <stdatomic.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct scan_pattern {
	/*
	 * code ends lines at newlines: it is for single lines, and for text without carriage
	 * returns. crlf_code is for text with several lines of which some end with CR LF, so that
	 * `$` matches before both characters and `.` neither; NULL until it is needed.
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
	atomic_uint_fast64_t scanned; /* bytes scanned without an automaton */
};

/**
 * Makes the automaton, or waits for the thread that makes it if @wait. Returns NULL if there is
 * none, or none yet.
 */
const struct automaton *scan_pattern_make_automaton(struct scan_pattern *pattern, bool wait);

/** Returns the automaton, if there is one or it should be made now for a scan of @len bytes. */
const struct automaton *scan_pattern_automaton(struct scan_pattern *pattern, size_t len);

/** Returns the code for text with carriage returns; NULL if memory is out. */
const pcre2_code *scan_pattern_crlf_code(struct scan_pattern *pattern);
