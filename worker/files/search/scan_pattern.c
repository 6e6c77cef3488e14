// SPDX-License-Identifier: Apache-2.0
/* cloister-files. The pattern is the model's: PCRE2 compiles it within LIMIT_PATTERN_BYTES. */
#include "worker/files/search/scan_pattern.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/files/search/scan_pattern_state.h"

#include <errno.h>

#define AUTOMATON_AFTER_BYTES (1 * MIB) /* scanned without a literal before one is made */

/* `^` matches on an empty line also where the subject ends there. */
#define OPTIONS                                                                         \
	(PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX | \
		PCRE2_NEVER_BACKSLASH_C)

static void free_compile_context(pcre2_compile_context **context)
{
	pcre2_compile_context_free(*context);
}

static void free_pattern(struct scan_pattern **pattern)
{
	scan_pattern_free(*pattern);
}

/* Any byte may be in it, NUL too. */
static char *copy_of(struct text text)
{
	char *copy = malloc(text.len + 1);

	if (copy && text.len > 0)
		memcpy(copy, text.data, text.len);
	return copy;
}

static int remember_start(struct scan_pattern *compiled, struct text pattern)
{
	struct pattern_start start = pattern_literal_start(pattern);
	size_t len = start.text.len;

	if (len == 0)
		return 0;
	compiled->start_bytes = copy_of(start.text);
	if (!compiled->start_bytes)
		return -ENOMEM;
	for (size_t i = 0; start.caseless && i < len; i++)
		if (compiled->start_bytes[i] >= 'A' && compiled->start_bytes[i] <= 'Z')
			compiled->start_bytes[i] |= 'a' ^ 'A';
	compiled->start = literal_of((struct text){compiled->start_bytes, len}, start.caseless);
	return 0;
}

/* Keeps @pattern for what is compiled later, and what can be said of it. */
static int remember_source(struct scan_pattern *compiled, struct text pattern)
{
	uint32_t matches_empty = 1;

	compiled->source = copy_of(pattern);
	compiled->source_len = pattern.len;
	if (!compiled->source)
		return -ENOMEM;
	compiled->traits = pattern_traits(pattern);
	compiled->crosses_lines = compiled->traits.known ? compiled->traits.crosses_lines
							 : pattern_may_cross_lines(pattern);
	(void)pcre2_pattern_info(compiled->code, PCRE2_INFO_MATCHEMPTY, &matches_empty);
	compiled->view = PATTERN_SEES_MATCH;
	if (!compiled->traits.known || matches_empty) {
		compiled->view = pattern_view(pattern);
		compiled->impossible = true;
	}
	return 0;
}

/* *@ret_code is @pattern, to which lines end as @newline says. As scan_pattern_new. */
static int compile_scan_pattern(
	struct text pattern, uint32_t newline, pcre2_code **ret_code, struct scan_error *ret_error)
{
	_cleanup_(free_compile_context) pcre2_compile_context *context =
		pcre2_compile_context_create(NULL);
	pcre2_code *code;
	size_t offset = 0;
	int error = 0;

	if (!context)
		return -ENOMEM;
	pcre2_set_newline(context, newline);
	pcre2_set_max_pattern_length(context, LIMIT_PATTERN_BYTES);
	code = pcre2_compile((PCRE2_SPTR)(pattern.len > 0 ? pattern.data : ""), pattern.len,
		OPTIONS, &error, &offset, context);
	if (!code) {
		if (error == PCRE2_ERROR_HEAP_FAILED)
			return -ENOMEM;
		ret_error->offset = offset;
		pcre2_get_error_message(
			error, (PCRE2_UCHAR *)ret_error->message, sizeof(ret_error->message));
		return -EINVAL;
	}
	/* Without executable memory this fails, and pcre2_match interprets. */
	(void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	*ret_code = code;
	return 0;
}

int scan_pattern_new(
	struct text pattern, struct scan_pattern **ret_pattern, struct scan_error *ret_error)
{
	_cleanup_(free_pattern) struct scan_pattern *compiled = calloc(1, sizeof(*compiled));
	int r;

	if (!compiled)
		return -ENOMEM;
	pthread_mutex_init(&compiled->mutex, NULL);
	r = compile_scan_pattern(pattern, PCRE2_NEWLINE_LF, &compiled->code, ret_error);
	if (r < 0)
		return r;
	if (remember_start(compiled, pattern) < 0 || remember_source(compiled, pattern) < 0)
		return -ENOMEM;
	*ret_pattern = TAKE_PTR(compiled);
	return 0;
}

void scan_pattern_free(struct scan_pattern *pattern)
{
	if (!pattern)
		return;
	automaton_free(pattern->automaton);
	pcre2_code_free(pattern->code);
	pcre2_code_free(pattern->crlf_code);
	pthread_mutex_destroy(&pattern->mutex);
	free(pattern->source);
	free(pattern->start_bytes);
	free(pattern);
}

const struct automaton *scan_pattern_make_automaton(struct scan_pattern *pattern, bool wait)
{
	struct automaton *automaton = NULL;
	int r;

	if (wait)
		pthread_mutex_lock(&pattern->mutex);
	else if (pthread_mutex_trylock(&pattern->mutex) != 0)
		return NULL;
	if (!pattern->automaton && !pattern->impossible) {
		r = automaton_new((struct text){pattern->source, pattern->source_len},
			pattern->traits, &automaton);
		if (r == 0)
			pattern->automaton = automaton;
		else
			pattern->impossible = true;
	}
	pthread_mutex_unlock(&pattern->mutex);
	return pattern->automaton;
}

const pcre2_code *scan_pattern_crlf_code(struct scan_pattern *pattern)
{
	struct scan_error error;
	pcre2_code *code;

	if (pattern->crlf_code)
		return pattern->crlf_code;
	pthread_mutex_lock(&pattern->mutex);
	if (!pattern->crlf_code &&
		compile_scan_pattern((struct text){pattern->source, pattern->source_len},
			PCRE2_NEWLINE_ANYCRLF, &code, &error) == 0)
		pattern->crlf_code = code;
	pthread_mutex_unlock(&pattern->mutex);
	return pattern->crlf_code;
}

bool scan_pattern_force_engine(struct scan_pattern *pattern, enum scan_engine engine)
{
	pattern->engine = engine;
	if (engine != SCAN_BY_CHOICE)
		pattern->start = (struct literal){0};
	return engine != SCAN_BY_AUTOMATON || scan_pattern_make_automaton(pattern, true);
}

const struct automaton *scan_pattern_automaton(struct scan_pattern *pattern, size_t len)
{
	const struct automaton *automaton = pattern->automaton;

	if (automaton || pattern->impossible || pattern->traits.literal_start)
		return automaton;
	if (pattern->engine == SCAN_BY_PCRE2 ||
		atomic_fetch_add(&pattern->scanned, len) + len < AUTOMATON_AFTER_BYTES)
		return NULL;
	return scan_pattern_make_automaton(pattern, false);
}
