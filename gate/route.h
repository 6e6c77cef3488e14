/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Paths. No input or output, so that it can be tested with any path. */

#include "gate/face.h"

#define GATE_SEGMENTS_MAX 8

/* The parts of a path that match the segments in braces of a route's pattern. */
struct gate_segments {
	size_t n;
	struct gate_segment {
		const char *pattern; /* behind the brace; up to '}' or "..." */
		char *value;         /* decoded */
	} items[GATE_SEGMENTS_MAX];
};

/**
 * Whether @path, as it came, is of @pattern. Segments in braces are decoded to @ret, to be released
 * with gate_segments_done(). Returns 1, 0, or -ENOMEM. Such a segment is not empty, and when it is
 * decoded it is neither "." nor ".." and has no '/', '\\' or control character. The same holds for
 * the segments of "{rest...}"; "*" takes any rest, unseen.
 */
int gate_path_match(const char *pattern, const char *path, struct gate_segments *ret);
void gate_segments_done(struct gate_segments *segments);
const char *gate_segments_find(const struct gate_segments *segments, const char *name);

/**
 * Decodes percent-encoded @text in place. Returns false if it is malformed or has a NUL.
 */
bool gate_percent_decode(char *text);
