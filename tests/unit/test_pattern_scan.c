/* links: cloister-files-core */
// SPDX-License-Identifier: Apache-2.0
/* Compares the two engines: for any pattern and any bytes they must find the same lines.
 * CLOISTER_ORACLE_CASES and CLOISTER_ORACLE_SEED set how many generated cases and which; the seed
 * is printed. */
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"
#include "worker/files/search/literal_find.h"
#include "worker/files/search/pattern_scan.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define CASES rounds(400, 2000)

/* Lines that were found, as "3 17 ", and the result of the scan. */
struct found {
	char *lines;
	size_t len;
	FILE *stream;
	int result;
};

static int note_line(const struct scan_line *line, void *context)
{
	struct found *found = context;

	assert_true(line->match_at + line->match_len <= line->text.len);
	fprintf(found->stream, "%llu ", (unsigned long long)line->number);
	return 0;
}

/* Returns false if there is no such engine for @pattern, or @pattern is not valid. */
static bool scan_by(
	enum scan_engine engine, struct text pattern, struct text bytes, struct found *ret_found)
{
	struct scan_pattern *compiled;
	struct scan_error error;
	struct scanner *scanner;

	if (scan_pattern_new(pattern, &compiled, &error) < 0)
		return false;
	if (!scan_pattern_force_engine(compiled, engine)) {
		scan_pattern_free(compiled);
		return false;
	}
	scanner = scanner_new(compiled);
	assert_non_null(scanner);
	*ret_found = (struct found){0};
	ret_found->stream = open_memstream(&ret_found->lines, &ret_found->len);
	ret_found->result = scanner_scan(scanner, bytes, note_line, ret_found);
	fclose(ret_found->stream);
	scanner_free(scanner);
	scan_pattern_free(compiled);
	return true;
}

/* What the generated case that runs was made from: with it and one case, it runs alone. */
static size_t case_seed;

static void begin_case(size_t seed)
{
	case_seed = seed;
	srand((unsigned)seed);
}

static _Noreturn void fail_on(
	struct text pattern, struct text bytes, const char *expected, const char *found)
{
	print_error("bytes, at most 4096 of %zu:\n", bytes.len);
	for (size_t i = 0; i < bytes.len && i < 4096; i++)
		print_error(bytes.data[i] == '\n' ? "\\n\n" : "%02x", (unsigned char)bytes.data[i]);
	fail_msg("%.*s with CLOISTER_ORACLE_SEED=%zu CLOISTER_ORACLE_CASES=1\n"
		 "expected: %.300s\nfound: %.300s",
		(int)pattern.len, pattern.data, case_seed, expected, found);
	abort();
}

/* The engines agree on lines, but PCRE2 may stop at a limit. False: one was not usable. */
static bool check_same(struct text pattern, struct text bytes)
{
	struct found by_pcre2, by_automaton;

	if (!scan_by(SCAN_BY_AUTOMATON, pattern, bytes, &by_automaton))
		return false;
	if (!scan_by(SCAN_BY_PCRE2, pattern, bytes, &by_pcre2))
		fail_on(pattern, bytes, "nothing: it did not run", by_automaton.lines);
	if (by_pcre2.result != -E2BIG && (by_pcre2.result != by_automaton.result ||
						 strcmp(by_pcre2.lines, by_automaton.lines) != 0))
		fail_on(pattern, bytes, by_pcre2.lines, by_automaton.lines);
	free(by_pcre2.lines);
	free(by_automaton.lines);
	return true;
}

static size_t pick(size_t count)
{
	return (size_t)rand() % count;
}

static const char *const atoms[] = {"a", "b", "k", "s", "S", "7", "_", " ", "-", "\"", "#", "ab",
	"\\d", "\\w", "\\s", "\\D", "\\W", "\\S", "\\b", "\\B", "^", "$", ".", ".", "\\n", "\\r",
	"\\t", "\\.", "\\(", "[ab]", "[^a]", "[a-k]", "[^\\s]", "[^\\n]", "[\\w-]", "[]a]", "[^]a]",
	"[[:alpha:]]", "[[:punct:]]", "[[:space:]x]", "[\\d.]", "\xc3\xa9", "[\xc3\xa9z]",
	"\xe2\x82\xac", "[^\xc3\xa9]", "(?:", "(", ")", "|", "=", "]", "}"};

static const char *const quantifiers[] = {
	"*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "{0,2}?"};

static void put_atoms(FILE *out, size_t depth)
{
	for (size_t count = 1 + pick(4); count > 0; count--) {
		if (depth < 3 && pick(6) == 0) {
			fputs(pick(2) ? "(" : "(?:", out);
			put_atoms(out, depth + 1);
			if (pick(2)) {
				fputs("|", out);
				put_atoms(out, depth + 1);
			}
			fputs(")", out);
		} else {
			fputs(atoms[pick(ARRAY_SIZE(atoms))], out);
		}
		if (pick(3) == 0)
			fputs(quantifiers[pick(ARRAY_SIZE(quantifiers))], out);
	}
}

/* Writes what models mostly search for: words with something between them. */
static void put_words(FILE *out)
{
	static const char *const letters[] = {"a", "b", "k", "s", "7", "_", "\xc3\xa9"};
	static const char *const between[] = {"|", "|", "|", "\\s*", ".*", "\\w+", "[^a]", "\\("};

	for (size_t count = 1 + pick(10); count > 0; count--) {
		for (size_t len = 1 + pick(7); len > 0; len--)
			fputs(letters[pick(ARRAY_SIZE(letters))], out);
		if (count > 1)
			fputs(between[pick(ARRAY_SIZE(between))], out);
	}
}

static char *random_pattern(void)
{
	char *pattern;
	size_t len;
	FILE *out = open_memstream(&pattern, &len);

	if (pick(4) == 0)
		fputs("(?i)", out);
	if (pick(4) == 0)
		put_words(out);
	else
		put_atoms(out, 0);
	if (pick(4) == 0) {
		fputs("|", out);
		put_atoms(out, 0);
	}
	fclose(out);
	return pattern;
}

static const char *const pieces[] = {"a", "a", "b", "k", "K", "s", "7", "_", " ", "-", "\"", "#",
	"(", ".", "=", "]", "\t", "\n", "\n", "\n", "\n", "ab", "aab", "\xc3\xa9", "\xc3\x89",
	"\xe2\x82\xac", "\xe2\x84\xaa" /* U+212A */, "\xc5\xbf" /* U+017F */, "\xf0\x9f\x98\x80"};

static const char *const carriage_returns[] = {"\r\n", "\r\n", "\r"};

static const char *const invalid[] = {"\xff", "\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80",
	"\xc0\xaf", "\xf4\x90\x80\x80", "\xc2\n", "\xf0\x9f"};

/* Makes text, sometimes with carriage returns, invalid UTF-8 or random bytes. */
static char *random_bytes(size_t *ret_len)
{
	size_t kind = pick(6), count = pick(pick(5) ? 200 : 4000);
	char *bytes;
	FILE *out = open_memstream(&bytes, ret_len);

	if (pick(20) == 0)
		fputs("\xef\xbb\xbf", out);
	while (count-- > 0) {
		if (kind == 0 && pick(8) == 0)
			fputs(carriage_returns[pick(ARRAY_SIZE(carriage_returns))], out);
		else if (kind == 1 && pick(8) == 0)
			fputs(invalid[pick(ARRAY_SIZE(invalid))], out);
		else if (kind == 2)
			fputc((int)pick(256), out);
		else
			fputs(pieces[pick(ARRAY_SIZE(pieces))], out);
	}
	fclose(out);
	return bytes;
}

/* To compile an automaton takes long. */
TEST(test_generated)
{
	size_t cases = oracle_cases(12, 2000), compared = 0;
	size_t seed = oracle_seed();

	print_message("seed %zu, %zu cases\n", seed, cases);
	for (size_t i = 0; i < cases; i++) {
		_cleanup_free_ char *pattern = NULL;
		bool both = true;

		begin_case(seed + i);
		pattern = random_pattern();
		for (int j = 0; j < 4 && both; j++) {
			size_t len;
			_cleanup_free_ char *bytes = random_bytes(&len);

			both = check_same(text_from(pattern), (struct text){bytes, len});
			compared += both;
		}
	}
	print_message("%zu scans compared\n", compared);
	assert_true(compared >= cases);
}

static size_t put_utf8(char *out, unsigned c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/* All characters up to U+07FF between two letters; U+212A is another case of "k". */
TEST(test_every_character)
{
	static const char *const patterns[] = {"x\\wy", "x\\Wy", "x\\dy", "x\\Dy", "x\\sy", "x\\Sy",
		"x.y", "x[^q]y", "x\\b.", ".\\by", "x\\B.", "x[[:alnum:]]y", "x[[:alpha:]]y",
		"x[[:digit:]]y", "x[[:punct:]]y", "x[[:space:]]y", "x[[:xdigit:]]y", "(?i)x[a-z]y",
		"(?i)x[^a-z]y", "(?i)xky", "(?i)xsy", "(?i)x[k]y", "(?i)x[^s]y", "(?i)x\\wy",
		"^x.y$", "x\xc3\xa9y", "x[\xc3\xa9\xe2\x82\xac]y", "x..?y", "x[\\W_]y", "x[^\\W]y",
		"x[ -~]y"};
	const unsigned all = (unsigned)rounds(0x800, 0x3000), step = (unsigned)rounds(331, 37);
	char *bytes = malloc(0x110000 * (size_t)7);
	size_t len = (size_t)sprintf(bytes, "x\xe2\x84\xaay\n");

	for (unsigned c = 0; c < 0x110000; c += c < all ? 1 : step) {
		if (c == '\r' || (c >= 0xd800 && c < 0xe000))
			continue;
		bytes[len++] = 'x';
		len += put_utf8(bytes + len, c);
		bytes[len++] = 'y';
		bytes[len++] = '\n';
	}
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		if (!check_same(text_from(patterns[i]), (struct text){bytes, len}))
			fail_msg("no automaton for %s", patterns[i]);
	free(bytes);
}

/* No character beyond ASCII is another case of the bytes that a search without case begins with. */
TEST(test_caseless_characters)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0_@`~";
	char *bytes = malloc(0x110000 * (size_t)7);
	size_t len = 0;

	for (unsigned c = 1; c < 0x110000; c++)
		if (c != '\r' && (c < 0xd800 || c >= 0xe000) && (c < 0x20000 || c % 37 == 0)) {
			bytes[len++] = 'x';
			len += put_utf8(bytes + len, c);
			memcpy(bytes + len, "Xy\n", 3);
			len += 3;
		}
	for (const char *letter = letters; *letter; letter++) {
		char pattern[16];
		struct text text = {bytes, len};
		struct found by_choice, by_pcre2;

		snprintf(pattern, sizeof(pattern), "(?i)X%cxY", *letter);
		assert_true(scan_by(SCAN_BY_PCRE2, text_from(pattern), text, &by_pcre2));
		assert_true(scan_by(SCAN_BY_CHOICE, text_from(pattern), text, &by_choice));
		assert_string_equal(by_choice.lines, by_pcre2.lines);
		assert_true(by_choice.len > 0);
		free(by_choice.lines);
		free(by_pcre2.lines);
	}
	free(bytes);
}

/* More lines than the automaton reports at a time, in a text larger than its blocks. */
TEST(test_many_lines)
{
	static const char *const patterns[] = {
		"[0-9]{2}5", "[a-z]+ 1?7", "^[a-f]+.*9$", "\\d\\s\\w", "7$|^q"};
	char *bytes;
	size_t len;
	FILE *out = open_memstream(&bytes, &len);

	for (size_t i = 0; i < 20000; i++)
		fprintf(out, "%s %zu\n", i % 3 ? "abc" : "", i);
	fclose(out);
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++)
		assert_true(check_same(text_from(patterns[i]), (struct text){bytes, len}));
	free(bytes);
}

/* Patterns on which PCRE2 gives up. */
TEST(test_limits)
{
	char bytes[4100] = "";
	struct found found = {0};

	memset(bytes, 'a', 4000);
	memcpy(bytes + 4000, "!\nb\naaaa\n", 9);
	assert_true(scan_by(SCAN_BY_PCRE2, TEXT_LITERAL("(a+)+$"), text_from(bytes), &found));
	assert_int_equal(found.result, -E2BIG);
	free(found.lines);
	assert_true(scan_by(SCAN_BY_CHOICE, TEXT_LITERAL("(a+)+$"), text_from(bytes), &found));
	assert_int_equal(found.result, 0);
	assert_string_equal(found.lines, "3 ");
	free(found.lines);
	assert_true(
		scan_by(SCAN_BY_CHOICE, TEXT_LITERAL("(a+)+$(?<=a)"), text_from(bytes), &found));
	assert_int_equal(found.result, -E2BIG);
	free(found.lines);
}

/* Few letters, so that parts of the literal are everywhere; incomplete characters; line ends. */
static size_t make_bytes(char *bytes, size_t max)
{
	static const char *const parts[] = {
		"a", "b", "Q", "\xc3\xa9", "\xc3", "\xa9", "\n", "\r\n", "ab", "abQ"};
	size_t len = 0, wanted = pick(max - 3);

	while (len < wanted) {
		const char *piece = parts[pick(ARRAY_SIZE(parts))];

		memcpy(bytes + len, piece, strlen(piece));
		len += strlen(piece);
	}
	return len;
}

TEST(test_literal_find)
{
	char bytes[400], wanted[20];

	for (size_t i = 0; i < CASES; i++) {
		size_t len = make_bytes(bytes, sizeof(bytes)), at = pick(len + 1);
		size_t wanted_len = make_bytes(wanted, sizeof(wanted));
		struct literal literal;
		const char *expected;

		if (wanted_len < 2)
			continue;
		literal = literal_of((struct text){wanted, wanted_len}, false);
		expected = memmem(bytes + at, len - at, wanted, wanted_len);
		assert_int_equal(literal_find(&literal, (struct text){bytes, len}, at),
			expected ? (size_t)(expected - bytes) : len);
	}
}

static bool same_without_case(const char *bytes, const char *lower, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (bytes[i] != lower[i] &&
			!(lower[i] >= 'a' && lower[i] <= 'z' && bytes[i] == lower[i] - 'a' + 'A'))
			return false;
	return true;
}

/* Bytes that differ from a letter by the bit of its case, or by others, are near each other. */
TEST(test_caseless_literal_find)
{
	static const char letters[] = "aAbBzZ[{@`!\x01\xe1\xc1\0";
	char bytes[400], wanted[9];

	for (size_t i = 0; i < CASES; i++) {
		size_t len = pick(sizeof(bytes)), at = pick(len + 1), expected = at;
		size_t wanted_len = 2 + pick(pick(4) ? 2 : 7);
		struct literal literal;

		for (size_t j = 0; j < len; j++)
			bytes[j] = letters[pick(pick(3) ? 4 : sizeof(letters))];
		for (size_t j = 0; j < wanted_len; j++) {
			wanted[j] = letters[pick(pick(3) ? 4 : sizeof(letters))];
			if (wanted[j] >= 'A' && wanted[j] <= 'Z')
				wanted[j] |= 'a' ^ 'A';
		}
		literal = literal_of((struct text){wanted, wanted_len}, true);
		while (len - expected >= wanted_len &&
			!same_without_case(bytes + expected, wanted, wanted_len))
			expected++;
		if (len - expected < wanted_len)
			expected = len;
		assert_int_equal(literal_find(&literal, (struct text){bytes, len}, at), expected);
	}
}

/* A pattern may hold any byte, and its copies do not end at a NUL. */
TEST(test_nul_in_a_pattern)
{
	struct text bytes = {"a\0\0\0b\nab\n\0\0\0b\n", 14};
	struct text pattern = {"\0\0\0b", 4};
	struct found found;

	for (enum scan_engine engine = SCAN_BY_CHOICE; engine <= SCAN_BY_PCRE2; engine++) {
		if (!scan_by(engine, pattern, bytes, &found))
			continue;
		assert_int_equal(found.result, 0);
		assert_non_null(strchr(found.lines, '1'));
		assert_non_null(strchr(found.lines, '3'));
		assert_null(strchr(found.lines, '2'));
		free(found.lines);
	}
}

/* The search for the literal that a pattern begins with finds the same as PCRE2 alone. */
TEST(test_literal_start)
{
	static const char *const letters[] = {"a", "b", "Q", "\xc3\xa9"};
	static const char *const ends[] = {"", "?", "*", "+", "{0,2}", "$", "\\b", "\\s", "[ab]",
		"(?=a)", "(*COMMIT)b", "(?i)q", "(a)?b", "\\Kb", "\\n", "|b", "(a|b)"};

	for (size_t i = 0; i < CASES; i++) {
		char bytes[400], pattern[64] = "";
		struct text text = {bytes, make_bytes(bytes, sizeof(bytes))};

		if (pick(2))
			strcat(pattern, "(?i)");
		struct found by_choice = {0}, by_pcre2 = {0};

		for (size_t n = 2 + pick(4); n > 0; n--)
			strcat(pattern, letters[pick(ARRAY_SIZE(letters))]);
		strcat(pattern, ends[pick(ARRAY_SIZE(ends))]);
		if (!scan_by(SCAN_BY_CHOICE, text_from(pattern), text, &by_choice) ||
			!scan_by(SCAN_BY_PCRE2, text_from(pattern), text, &by_pcre2))
			fail_on(text_from(pattern), text, "one did not run", "");
		if (by_choice.result != by_pcre2.result ||
			strcmp(by_choice.lines, by_pcre2.lines) != 0)
			fail_on(text_from(pattern), text, by_pcre2.lines, by_choice.lines);
		free(by_choice.lines);
		free(by_pcre2.lines);
	}
}

/* Makes a pattern that matches within a line and uses lookaround. */
static char *random_line_pattern(void)
{
	static const char *const looks[] = {"(?!\\W)", "(?=\\s)", "(?<!\\w)", "(?<=a)", "(?>a*)",
		"a*+", "\\w++", "(?=.*b)", "(?!$)", "(?!\\s*b)", "(?<![ab])", "(?=[^b])",
		"(?![^\\n]b)", "(?i:a)", "(\\w)\\1", "\\x61", "(?|a|b)", "(?-m)^", "(?(?=a)a|b)"};
	static const char *const plain[] = {"a", "b", "_", " ", "\\w", ".", "[ab]", "\\b", "\\B",
		"^", "$", "ab", "7", "\xc3\xa9", "=", "aab"};
	char *pattern;
	size_t len;
	FILE *out = open_memstream(&pattern, &len);

	for (size_t count = 1 + pick(4); count > 0; count--) {
		bool look = pick(2);

		fputs(look ? looks[pick(ARRAY_SIZE(looks))] : plain[pick(ARRAY_SIZE(plain))], out);
		if (!look && pick(4) == 0)
			fputs(pick(2) ? "*?" : "{1,2}", out);
		if (count > 1 && pick(6) == 0)
			fputs("|", out);
	}
	fclose(out);
	return pattern;
}

/* Returns the lines of @bytes in which PCRE2 finds @pattern when it gets them one by one. */
static char *lines_alone(struct text pattern, struct text bytes)
{
	int error;
	size_t offset, len, number = 1;
	pcre2_compile_context *context = pcre2_compile_context_create(NULL);
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	pcre2_code *code;
	char *lines;
	FILE *out = open_memstream(&lines, &len);

	pcre2_set_newline(context, PCRE2_NEWLINE_LF);
	code = pcre2_compile((PCRE2_SPTR)pattern.data, pattern.len,
		PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_MULTILINE | PCRE2_ALT_CIRCUMFLEX,
		&error, &offset, context);
	/* The interpreter's (?!\\W) differs from the JIT's at characters above U+00FF. */
	(void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
	if (bytes.len >= 3 && memcmp(bytes.data, "\xef\xbb\xbf", 3) == 0)
		bytes = (struct text){bytes.data + 3, bytes.len - 3};
	for (; code && bytes.len > 0; number++) {
		struct text line = text_take(&bytes, '\n');

		if (line.len > 0 && line.data[line.len - 1] == '\r')
			line.len--;
		if (pcre2_match(code, (PCRE2_SPTR)line.data, line.len, 0, 0, data, NULL) >= 0)
			fprintf(out, "%zu ", number);
	}
	fclose(out);
	pcre2_code_free(code);
	pcre2_match_data_free(data);
	pcre2_compile_context_free(context);
	return lines;
}

/* A pattern that consumes no newline finds the lines that match alone, whatever surrounds them. */
TEST(test_lines_alone)
{
	size_t cases = oracle_cases(700, 2000), compared = 0;
	size_t seed = oracle_seed();

	print_message("seed %zu, %zu cases\n", seed, cases);
	for (size_t i = 0; i < cases; i++) {
		_cleanup_free_ char *pattern = NULL, *bytes = NULL, *expected = NULL;
		struct found found;
		size_t len;

		begin_case(seed + i);
		pattern = random_line_pattern();
		bytes = random_bytes(&len);
		if (!scan_by(SCAN_BY_CHOICE, text_from(pattern), (struct text){bytes, len}, &found))
			continue; /* not valid, such as "$*?" */
		expected = lines_alone(text_from(pattern), (struct text){bytes, len});
		if (found.result != 0 || strcmp(found.lines, expected) != 0)
			fail_on(text_from(pattern), (struct text){bytes, len}, expected,
				found.lines);
		free(found.lines);
		compared++;
	}
	assert_true(compared >= cases / 2);
}

/* PCRE2's JIT (10.42) passes over the beginning of a line if an invalid byte stands there, unless
 * it begins there. */
TEST(test_lines_with_invalid_bytes)
{
	static const char *const patterns[] = {
		"\\B^", "\\B^^", "(q|^)\\B", "\\B(?:^|q)", "(?i:\\B)^"};
	static const struct text bytes = {"aab\n\x80"
					  "aab\nb\n\xff\n",
		13};
	struct found found;

	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		assert_true(scan_by(SCAN_BY_CHOICE, text_from(patterns[i]), bytes, &found));
		assert_int_equal(found.result, 0);
		assert_string_equal(found.lines, "2 4 ");
		free(found.lines);
	}
}
