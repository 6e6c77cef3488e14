// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The path is a stranger's. It is decoded once, segment by segment, after it
 * was split, so that an encoded slash never makes a segment.
 */
#include "gate/route.h"

#include "common/cleanup.h"
#include "common/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool gate_percent_decode(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		int high, low;

		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		high = digit(from[1]);
		low = high < 0 ? -1 : digit(from[2]);
		if (low < 0 || (high == 0 && low == 0))
			return false;
		*to++ = (char)(high * 16 + low);
		from += 2;
	}
	*to = '\0';
	return true;
}

static bool is_segment(const char *text)
{
	if (strcmp(text, ".") == 0 || strcmp(text, "..") == 0)
		return false;
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f || *text == '/' || *text == '\\')
			return false;
	return true;
}

/* Decodes @text. Returns 1 with *ret, 0 if it may be no segment, or -ENOMEM. */
static int decode_segment(struct text text, char **ret)
{
	_cleanup_free_ char *segment = strndup(text.data, text.len);

	if (!segment)
		return -ENOMEM;
	if (!gate_percent_decode(segment) || !is_segment(segment))
		return 0;
	*ret = TAKE_PTR(segment);
	return 1;
}

/* The same for all that is left; only its last segment may be empty. */
static int decode_rest(struct text text, char **ret)
{
	_cleanup_free_ char *rest = strndup(text.data, text.len);
	struct text left = text;

	if (!rest)
		return -ENOMEM;
	while (left.len > 0) {
		_cleanup_free_ char *segment = NULL;
		struct text part = text_take(&left, '/');
		int r = part.len == 0 ? 0 : decode_segment(part, &segment);

		if (r <= 0)
			return r;
	}
	(void)gate_percent_decode(rest);
	*ret = TAKE_PTR(rest);
	return 1;
}

/* One segment of pattern and path. Returns 1 if they agree, 2 if the pattern takes the rest. */
static int match_one(const char *pattern, const char *path, struct gate_segments *ret)
{
	size_t len = strcspn(pattern, "/"), path_len = strcspn(path, "/");
	bool is_rest = len > 4 && memcmp(pattern + len - 4, "...}", 4) == 0;
	char *value;
	int r;

	if (strcmp(pattern, "*") == 0)
		return 2;
	if (pattern[0] != '{')
		return len == path_len && memcmp(pattern, path, len) == 0;
	if (path_len == 0 || ret->n == GATE_SEGMENTS_MAX)
		return 0;
	r = is_rest ? decode_rest(text_from(path), &value)
		    : decode_segment((struct text){path, path_len}, &value);
	if (r <= 0)
		return r;
	ret->items[ret->n++] = (struct gate_segment){pattern + 1, value};
	return is_rest ? 2 : 1;
}

static int match(const char *pattern, const char *path, struct gate_segments *ret)
{
	while (true) {
		int r = match_one(pattern, path, ret);

		if (r != 1)
			return r == 2 ? 1 : r;
		pattern += strcspn(pattern, "/");
		path += strcspn(path, "/");
		if (!*pattern || !*path)
			return *pattern == *path;
		pattern++;
		path++;
	}
}

int gate_path_match(const char *pattern, const char *path, struct gate_segments *ret)
{
	struct gate_segments segments = {0};
	int r;

	if (pattern[0] != '/' || path[0] != '/')
		return 0;
	r = match(pattern + 1, path + 1, &segments);
	if (r > 0)
		*ret = segments;
	else
		gate_segments_done(&segments);
	return r;
}

void gate_segments_done(struct gate_segments *segments)
{
	for (size_t i = 0; i < segments->n; i++)
		free(segments->items[i].value);
	segments->n = 0;
}

const char *gate_segments_find(const struct gate_segments *segments, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < segments->n; i++) {
		const char *pattern = segments->items[i].pattern;

		if (strncmp(pattern, name, len) == 0 &&
			(pattern[len] == '}' || pattern[len] == '.'))
			return segments->items[i].value;
	}
	return NULL;
}
