// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the files process. Matches with two resume points instead of recursion. After a mismatch
 * only the last `*` (within its component) or, failing that, the last `**` needs another try: an
 * earlier star could not reach a match that a later one cannot. gitignore(5), glob(7), fnmatch(3).
 */
#include "worker/files/walk/glob.h"

#include "common/cleanup.h"
#include "common/limits.h"

#include <errno.h>

struct glob {
	struct text pattern;
	bool whole_path; /* otherwise compared with the last component */
};

struct glob_set {
	struct glob *globs; /* each owns its pattern's bytes */
	size_t count;
};

/*
 * Returns whether ASCII @c is in the class called @name, as in the C locale except for space, or -1
 * if there is no such class.
 */
static int in_named_class(struct text name, unsigned char c)
{
	bool upper = c >= 'A' && c <= 'Z';
	bool lower = c >= 'a' && c <= 'z';
	bool digit = c >= '0' && c <= '9';
	bool graph = c > ' ' && c < 0x7f;
	const struct {
		struct text name;
		bool in;
	} classes[] = {
		{TEXT_LITERAL("alnum"), upper || lower || digit},
		{TEXT_LITERAL("alpha"), upper || lower},
		{TEXT_LITERAL("blank"), c == ' ' || c == '\t'},
		{TEXT_LITERAL("cntrl"), c < ' ' || c == 0x7f},
		{TEXT_LITERAL("digit"), digit},
		{TEXT_LITERAL("graph"), graph},
		{TEXT_LITERAL("lower"), lower},
		{TEXT_LITERAL("print"), graph || c == ' '},
		{TEXT_LITERAL("punct"), graph && !upper && !lower && !digit},
		/* as git has it, without vertical tab and form feed */
		{TEXT_LITERAL("space"), c == ' ' || c == '\t' || c == '\n' || c == '\r'},
		{TEXT_LITERAL("upper"), upper},
		{TEXT_LITERAL("xdigit"), digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')},
	};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (text_equal(classes[i].name, name))
			return classes[i].in;
	return -1;
}

/*
 * Reads one member of a class at @p: a byte, the end of a range that began with @low, or a named
 * class. Sets *@in if @c is in it, and *@low to the byte that may begin a range (0: none). Returns
 * the position after it, or NULL if it is malformed.
 */
static const char *class_member(
	const char *p, const char *end, unsigned char c, unsigned char *low, bool *in)
{
	bool range = *p == '-' && *low != 0 && p + 1 < end && p[1] != ']';
	unsigned char high;

	if (*p == '[' && p + 1 < end && p[1] == ':') {
		const char *name = p + 2;
		const char *close = memchr(name, ']', (size_t)(end - name));

		if (!close)
			return NULL;
		if (close > name && close[-1] == ':') {
			int named =
				in_named_class((struct text){name, (size_t)(close - 1 - name)}, c);

			*in |= named > 0;
			*low = 0;
			return named < 0 ? NULL : close + 1;
		}
	}
	p += range;
	if (*p == '\\' && ++p == end)
		return NULL;
	high = (unsigned char)*p;
	*in |= range ? *low <= c && c <= high : c == high;
	*low = range ? 0 : high;
	return p + 1;
}

/*
 * Reads the class whose first byte after `[` is @p. Returns the position after its `]`, or NULL if
 * it is malformed.
 */
static const char *class_match(const char *p, const char *end, unsigned char c, bool *ret_in)
{
	bool negated = p < end && (*p == '!' || *p == '^');
	unsigned char low = 0;
	bool in = false;

	p += negated;
	/* A `]` in first position is a member. */
	for (bool first = true; p && p < end; first = false) {
		if (*p == ']' && !first) {
			*ret_in = in != negated;
			return p + 1;
		}
		p = class_member(p, end, c, &low, &in);
	}
	return NULL;
}

int glob_check(struct text pattern)
{
	const char *end = pattern.data + pattern.len;

	for (const char *p = pattern.data; p < end;) {
		bool in;

		if (*p == '[')
			p = class_match(p + 1, end, 0, &in);
		else
			p += *p == '\\' ? 2 : 1;
		if (!p || p > end)
			return -EINVAL;
	}
	return 0;
}

/*
 * Whether @c matches the single element at *@p, which is not a star. Moves *@p past it, or sets it
 * to NULL if it is malformed.
 */
static bool element_match(const char **p, const char *end, char c)
{
	const char *element = *p;
	bool in;

	switch (*element) {
	case '?':
		*p = element + 1;
		return c != '/';
	case '[':
		*p = class_match(element + 1, end, (unsigned char)c, &in);
		return *p && in && c != '/';
	case '\\':
		if (++element == end) {
			*p = NULL;
			return false;
		}
		break;
	default:
		break;
	}
	*p = element + 1;
	return *element == c;
}

/* Whether the stars from @stars up to @p match whole components. */
static bool crosses_directories(struct text pattern, const char *stars, const char *p)
{
	const char *end = pattern.data + pattern.len;

	return p - stars >= 2 && (stars == pattern.data || stars[-1] == '/') &&
	       (p == end || *p == '/' || (*p == '\\' && p + 1 < end && p[1] == '/'));
}

/*
 * Where matching resumes after a mismatch: the rest of the pattern, and the position in the path
 * where it was last tried.
 */
struct resume {
	const char *pattern; /* NULL: no resume point */
	const char *path;
};

/* Goes back to the nearest resume point. Returns false if there is none. */
static bool resume_match(
	struct resume *star, struct resume *tree, const char *path_end, struct resume *at)
{
	if (star->pattern && star->path < path_end && *star->path != '/') {
		star->path++;
		*at = *star;
		return true;
	}
	star->pattern = NULL;
	if (!tree->pattern)
		return false;
	tree->path = memchr(tree->path, '/', (size_t)(path_end - tree->path));
	if (!tree->path)
		return false;
	tree->path++;
	*at = *tree;
	return true;
}

bool glob_match(struct text pattern, struct text path)
{
	const char *pattern_end = pattern.data + pattern.len;
	const char *path_end = path.data + path.len;
	struct resume star = {0}, tree = {0}, at = {pattern.data, path.data};

	for (;;) {
		bool matched;

		if (at.pattern < pattern_end && *at.pattern == '*') {
			const char *stars = at.pattern;

			while (at.pattern < pattern_end && *at.pattern == '*')
				at.pattern++;
			star = at;
			if (!crosses_directories(pattern, stars, at.pattern))
				continue;
			if (at.pattern == pattern_end)
				return true;
			/* Two stars and a slash may match no directory at all. */
			star.pattern = NULL;
			tree = at;
			tree.pattern += *at.pattern == '/' ? 1 : 2;
			matched = *at.pattern == '/';
			at = tree;
		} else if (at.path == path_end) {
			/*
			 * Every resume point leaves less of the path for the same pattern, so no
			 * other can match.
			 */
			return at.pattern == pattern_end;
		} else if (at.pattern == pattern_end) {
			matched = false;
		} else {
			matched = element_match(&at.pattern, pattern_end, *at.path++);
			if (!at.pattern)
				return false;
		}
		if (!matched && !resume_match(&star, &tree, path_end, &at))
			return false;
	}
}

/* Returns the first `{` of @pattern that is neither escaped nor in a class, or NULL. */
static const char *find_brace(struct text pattern)
{
	const char *end = pattern.data + pattern.len;

	for (const char *p = pattern.data; p && p < end;) {
		bool in;

		if (*p == '{')
			return p;
		if (*p == '[')
			p = class_match(p + 1, end, 0, &in);
		else
			p += *p == '\\' ? 2 : 1;
	}
	return NULL;
}

/*
 * Returns the end of the alternative that begins at @p, its comma or closing brace, or NULL if the
 * brace is not closed.
 */
static const char *alternative_end(const char *p, const char *end)
{
	size_t depth = 0;
	bool in;

	while (p && p < end) {
		if (depth == 0 && (*p == ',' || *p == '}'))
			return p;
		if (*p == '{')
			depth++;
		else if (*p == '}')
			depth--;
		if (*p == '[')
			p = class_match(p + 1, end, 0, &in);
		else
			p += *p == '\\' ? 2 : 1;
	}
	return NULL;
}

/* Appends the pattern that consists of @before, @middle and @after. */
static int add_glob(struct glob_set *set, struct text before, struct text middle, struct text after)
{
	_cleanup_free_ char *bytes = NULL;
	struct glob *glob;
	char *p;

	if (set->count == LIMIT_GLOB_ALTERNATIVES)
		return -E2BIG;
	p = bytes = malloc(before.len + middle.len + after.len + 1);
	if (!bytes)
		return -ENOMEM;
	p = mempcpy(p, before.data, before.len);
	p = mempcpy(p, middle.data, middle.len);
	p = mempcpy(p, after.data, after.len);
	glob = &set->globs[set->count++];
	*glob = (struct glob){.pattern = {bytes, (size_t)(p - bytes)}};
	TAKE_PTR(bytes);
	return 0;
}

/*
 * Replaces the pattern at @index, whose first brace is @open, by one pattern for each alternative.
 */
static int expand_brace(struct glob_set *set, size_t index, const char *open)
{
	struct text pattern = set->globs[index].pattern;
	const char *end = pattern.data + pattern.len;
	struct text before = {pattern.data, (size_t)(open - pattern.data)};
	const char *close = open;
	int r = 0;

	do {
		close = alternative_end(close + 1, end);
		if (!close)
			return -EINVAL;
	} while (*close != '}');
	for (const char *start = open + 1; start <= close && r == 0;) {
		const char *stop = alternative_end(start, end);

		r = add_glob(set, before, (struct text){start, (size_t)(stop - start)},
			(struct text){close + 1, (size_t)(end - close - 1)});
		start = stop + 1;
	}
	if (r < 0)
		return r;
	free((char *)pattern.data);
	set->globs[index] = set->globs[--set->count];
	return 0;
}

/* Removes "./" or "/" from the beginning of the pattern. Returns whether there was one. */
static bool strip_anchor(struct text *pattern)
{
	size_t skip = 0;

	if (pattern->len >= 2 && memcmp(pattern->data, "./", 2) == 0)
		skip = 2;
	else if (pattern->len >= 1 && pattern->data[0] == '/')
		skip = 1;
	memmove((char *)pattern->data, pattern->data + skip, pattern->len - skip);
	pattern->len -= skip;
	return skip > 0;
}

/* Expands and checks each pattern of @set; the expansions are appended to @set. */
static int compile_globs(struct glob_set *set)
{
	size_t expansions = 0;
	int r = 0;

	for (size_t i = 0; i < set->count && r == 0;) {
		struct glob *glob = &set->globs[i];
		const char *open = find_brace(glob->pattern);

		if (open) {
			/*
			 * "{{{a}}}" expands without growing, so the number of steps needs a bound
			 * too.
			 */
			r = ++expansions > LIMIT_GLOB_ALTERNATIVES ? -E2BIG
								   : expand_brace(set, i, open);
			continue;
		}
		r = glob_check(glob->pattern);
		glob->whole_path = strip_anchor(&glob->pattern) ||
				   memchr(glob->pattern.data, '/', glob->pattern.len);
		i++;
	}
	return r;
}

/*
 * Adds for each pattern with brackets one in which they are ordinary characters: models name files
 * such as app/[slug]/page.tsx.
 */
static int add_literal_brackets(struct glob_set *set)
{
	const size_t count = set->count;
	int r = 0;

	for (size_t i = 0; i < count && r == 0 && set->count < LIMIT_GLOB_ALTERNATIVES; i++) {
		const struct text pattern = set->globs[i].pattern;
		_cleanup_free_ char *bytes = malloc(2 * pattern.len + 1);
		size_t len = 0;

		if (!bytes)
			return -ENOMEM;
		if (pattern.len == 0 || !memchr(pattern.data, '[', pattern.len))
			continue;
		for (size_t at = 0; at < pattern.len; at++) {
			const char c = pattern.data[at];

			if (c == '[' || c == ']')
				bytes[len++] = '\\';
			bytes[len++] = c;
			if (c == '\\' && at + 1 < pattern.len)
				bytes[len++] = pattern.data[++at];
		}
		r = add_glob(set, TEXT_LITERAL(""), (struct text){bytes, len}, TEXT_LITERAL(""));
		if (r == 0)
			set->globs[set->count - 1].whole_path = set->globs[i].whole_path;
	}
	return r;
}

static void free_set(struct glob_set **set)
{
	glob_set_free(*set);
}

enum tool_error glob_set_new(struct text pattern, struct glob_set **ret_set)
{
	_cleanup_(free_set) struct glob_set *set = NULL;
	int r;

	if (pattern.len == 0) {
		*ret_set = NULL;
		return TOOL_OK;
	}
	set = calloc(1, sizeof(*set));
	if (!set)
		return TOOL_EXECUTION_ERROR;
	set->globs = calloc(LIMIT_GLOB_ALTERNATIVES, sizeof(*set->globs));
	if (!set->globs)
		return TOOL_EXECUTION_ERROR;
	r = add_glob(set, TEXT_LITERAL(""), pattern, TEXT_LITERAL(""));
	if (r == 0)
		r = compile_globs(set);
	if (r == 0)
		r = add_literal_brackets(set);
	switch (r) {
	case 0:
		*ret_set = TAKE_PTR(set);
		return TOOL_OK;
	case -EINVAL:
		return TOOL_INVALID_PATTERN;
	case -E2BIG:
		return TOOL_PATTERN_TOO_COMPLEX;
	default:
		return TOOL_EXECUTION_ERROR;
	}
}

void glob_set_free(struct glob_set *set)
{
	if (!set)
		return;
	for (size_t i = 0; i < set->count; i++)
		free((char *)set->globs[i].pattern.data);
	free(set->globs);
	free(set);
}

bool glob_set_match(const struct glob_set *set, struct text path, size_t base)
{
	const char *slash = path.len > 0 ? memrchr(path.data, '/', path.len) : NULL;
	size_t name_at = slash ? (size_t)(slash + 1 - path.data) : 0;
	size_t below_at = base > 0 && base < path.len ? base + 1 : 0;
	struct text name = {path.data + name_at, path.len - name_at};
	struct text below = {path.data + below_at, path.len - below_at};

	if (!set)
		return true;
	for (size_t i = 0; i < set->count; i++) {
		const struct glob *glob = &set->globs[i];

		if (!glob->whole_path) {
			if (glob_match(glob->pattern, name))
				return true;
		} else if (glob_match(glob->pattern, below) ||
			   (below_at && glob_match(glob->pattern, path))) {
			return true;
		}
	}
	return false;
}
