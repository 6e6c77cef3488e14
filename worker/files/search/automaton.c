// SPDX-License-Identifier: Apache-2.0
#include "worker/files/search/automaton.h"

#include "common/cleanup.h"
#include "common/utf8.h"

#include <errno.h>
#include <hs/hs.h>

struct automaton {
	hs_database_t *database;
	struct pattern_traits traits;
};

/* Vectorscan's hs_scratch under a name of its own. */
struct automaton_scratch;

#ifdef VECTORSCAN_HAS_VARIANTS
/*
 * hs_scan() picks the newest variant of its code that the processor supports. In Vectorscan 5.4.9
 * the AVX-512 and AVX2 variants miss matches: the first finds only one of three `]..` in
 * consecutive lines, the second misses the line "Z=" for `Z$|[Zz]=*=` if the Z is not ASCII. The
 * SSE 4.2 variant finds them, and tests/unit/test_pattern_scan.c checks that. This is its symbol in
 * the library's archive.
 */
hs_error_t corei7_hs_scan(const hs_database_t *database, const char *data, unsigned length,
	unsigned flags, hs_scratch_t *scratch, match_event_handler handler, void *context);

#define SCAN corei7_hs_scan

/* Describes a processor with SSE 4.2 only, so that the database suits that variant. */
static const hs_platform_info_t *platform(void)
{
	static const hs_platform_info_t sse = {.tune = HS_TUNE_FAMILY_GENERIC};

	return __builtin_cpu_supports("sse4.2") ? &sse : NULL;
}
#else
#define SCAN hs_scan

static const hs_platform_info_t *platform(void)
{
	static hs_platform_info_t here;

	return hs_populate_platform(&here) == HS_SUCCESS ? &here : NULL;
}
#endif

static void free_automaton(struct automaton **automaton)
{
	automaton_free(*automaton);
}

int automaton_new(
	struct text pattern, struct pattern_traits traits, struct automaton **ret_automaton)
{
	/* The options of pattern_scan.c, as far as they matter for a pattern with known traits. */
	unsigned flags = HS_FLAG_MULTILINE | (traits.ascii ? 0 : HS_FLAG_UTF8);
	_cleanup_(free_automaton) struct automaton *automaton = NULL;
	_cleanup_free_ char *string = NULL;
	hs_compile_error_t *error = NULL;

	if (!traits.known || text_has_nul(pattern) || hs_valid_platform() != HS_SUCCESS ||
		!platform())
		return -ENOTSUP;
	automaton = calloc(1, sizeof(*automaton));
	string = strndup(pattern.data, pattern.len);
	if (!automaton || !string)
		return -ENOMEM;
	automaton->traits = traits;
	if (hs_compile(string, flags, HS_MODE_BLOCK, platform(), &automaton->database, &error) !=
		HS_SUCCESS) {
		hs_free_compile_error(error);
		return -ENOTSUP;
	}
	*ret_automaton = TAKE_PTR(automaton);
	return 0;
}

void automaton_free(struct automaton *automaton)
{
	if (!automaton)
		return;
	hs_free_database(automaton->database);
	free(automaton);
}

struct automaton_scratch *automaton_scratch_new(const struct automaton *automaton)
{
	hs_scratch_t *scratch = NULL;

	if (hs_alloc_scratch(automaton->database, &scratch) != HS_SUCCESS)
		return NULL;
	return (struct automaton_scratch *)scratch;
}

void automaton_scratch_free(struct automaton_scratch *scratch)
{
	hs_free_scratch((hs_scratch_t *)scratch);
}

/*
 * Vectorscan ends lines at newlines only, so `^` and `$` miss matches at a carriage return, while
 * `.` only matches too much there. With a UTF-8 pattern its behaviour on invalid UTF-8 is
 * undefined.
 */
bool automaton_can_scan(const struct automaton *automaton, struct text bytes)
{
	if (automaton->traits.anchored && memchr(bytes.data, '\r', bytes.len))
		return false;
	return automaton->traits.ascii || utf8_is_valid(bytes);
}

bool automaton_is_exact(const struct automaton *automaton, struct text line)
{
	return !automaton->traits.crosses_lines && !memchr(line.data, '\r', line.len) &&
	       (automaton->traits.ascii || utf8_is_valid(line));
}

struct visit {
	automaton_visitor visit;
	void *context;
};

static int on_match(
	unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *context)
{
	const struct visit *visit = context;

	(void)id;
	(void)from;
	(void)flags;
	return visit->visit((size_t)to, visit->context);
}

int automaton_scan(const struct automaton *automaton, struct automaton_scratch *scratch,
	struct text bytes, automaton_visitor visit, void *context)
{
	struct visit adapter = {visit, context};
	hs_error_t error = SCAN(automaton->database, bytes.data, (unsigned)bytes.len, 0,
		(hs_scratch_t *)scratch, on_match, &adapter);

	return error == HS_SUCCESS || error == HS_SCAN_TERMINATED ? 0 : -EIO;
}
