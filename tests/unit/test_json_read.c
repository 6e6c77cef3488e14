/* links: cloister-json */
/* SPDX-License-Identifier: Apache-2.0 */

/* Texts that are JSON by RFC 8259 are read, others are not, and where the RFC leaves a choice the
 * result is fixed here. The three classes are those of JSONTestSuite. */

#include "tests/lib/unit.h"
#include "json/json_read.h"

#include <json-c/json.h>

#define T(literal) TEXT_LITERAL(literal)

static const struct json_bounds all = {LIMIT_JSON_VALUES, 64 * MIB};

/* Reads a copy in a block of exactly its size, so that a sanitizer notices a read past its end. */
static int read_exactly(struct text text, const struct json_bounds *bounds,
	struct json_object **ret_value, struct json_report *ret_report)
{
	char *copy = malloc(text.len > 0 ? text.len : 1);
	int r;

	assert_non_null(copy);
	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	r = json_read((struct text){copy, text.len}, bounds, ret_value, ret_report);
	free(copy);
	return r;
}

/* Texts that are JSON, and that json-c writes as they are. */
static const struct text good[] = {
	/* Structure, section 2. */
	T("null"), T("true"), T("false"), T("[]"), T("{}"), T("\"\""), T("0"), T("[[]]"), T("[{}]"),
	T("{\"a\":[]}"), T("{\"a\":{}}"), T("[[],[],{}]"), T("[null]"), T("[null,null]"),
	T("[true,false,null]"), T("[1,\"a\",null,true,{},[]]"), T("{\"\":0}"), T("{\"a\":null}"),
	T("{\"a\":1,\"A\":2,\"aa\":3}"), T("{\"jsonrpc\":\"2.0\"}"), T("{\"a b\":0}"),
	T("{\"a\\nb\":0}"), T("{\"\xe2\x82\xac\":0}"), T("{\"\\\"\":0}"), T("{\"'\":0}"),
	T("[[[[[[[[[[]]]]]]]]]]"), T("{\"a\":{\"b\":{\"c\":{\"d\":[]}}}}"),
	T("{\"a\":[{\"a\":[{\"a\":1}]}]}"),
	/* Numbers, section 6. */
	T("1"), T("-1"), T("10"), T("1234567890"), T("-1234567890"), T("0.0"), T("-0.0"), T("0.5"),
	T("-0.5"), T("1.0"), T("1.25"), T("0e0"), T("0e1"), T("0E1"), T("0e+1"), T("0e-1"),
	T("1e5"), T("1E5"), T("1e+5"), T("1E-5"), T("1e05"), T("1.5e3"), T("-1.5E-03"),
	T("123.456e78"), T("9007199254740991"), T("9007199254740993"), T("2147483648"),
	T("-2147483649"), T("4294967296"), T("9223372036854775807"), T("-9223372036854775808"),
	T("9223372036854775808"), T("18446744073709551615"),
	T("[-0.000000000000000000000000000000000000000000000000000001]"), T("[1e-300,1e300]"),
	T("[0,1,-1]"), T("3.141592653589793238462643383279"),
	/* Strings, section 7. */
	T("\"a\""), T("\"a b\""), T("\"'\""), T("\"\\\"\""), T("\"\\\\\""), T("\"/\""),
	T("\"\\b\\f\\n\\r\\t\""), T("\"\x7f\""), T("\"\\u0000\""), T("\"a\\u0000b\""),
	T("\"\\u0001\""), T("\"\\u001f\""), T("\"\\\\u0061\""), T("\"\\\\\\\"\""),
	T("\"\xc2\x80\""), T("\"\xdf\xbf\""), T("\"\xe0\xa0\x80\""), T("\"\xed\x9f\xbf\""),
	T("\"\xee\x80\x80\""), T("\"\xef\xbb\xbf\""), T("\"\xef\xbf\xbe\""),
	T("\"\xf0\x90\x80\x80\""), T("\"\xf4\x8f\xbf\xbf\""), T("\"1234567\""), T("\"12345678\""),
	T("\"123456789\""), T("\"1234567\\n\""), T("\"12345678\\n12345678\""),
	T("\"[{,:}] // /* */\""), T("[\"a\",\"b\"]"), T("\"asd \""),
	/* Where RFC 8259 leaves a choice. */
	T("9223372036854775809"), T("18446744073709551616"), T("-9223372036854775809"),
	T("100000000000000000000000"), T("-123123123123123123123123123123"), T("1e400"),
	T("-1e400"), T("1e-400"), T("0.4e00669999999999999999999999")};

/* Texts that are JSON, and how json-c writes the value. */
static const struct {
	struct text text;
	const char *written;
} rewritten[] = {
	{T(" null"), "null"},
	{T("null "), "null"},
	{T("\tnull\t"), "null"},
	{T("\nnull\n"), "null"},
	{T("\rnull\r"), "null"},
	{T(" \t\r\n[ \t\r\n] \t\r\n"), "[]"},
	{T(" \t\r\n{ \t\r\n} \t\r\n"), "{}"},
	{T("[ 1 , 2 ]"), "[1,2]"},
	{T("{ \"a\" : 1 , \"b\" : 2 }"), "{\"a\":1,\"b\":2}"},
	{T("[1\n]"), "[1]"},
	{T("[1\t,2]"), "[1,2]"},
	{T("{\"\\u0061\":0}"), "{\"a\":0}"},
	{T("{\"\\u00e9\":0}"), "{\"\xc3\xa9\":0}"},
	{T("{\"\\ud83d\\ude00\":0}"), "{\"\xf0\x9f\x98\x80\":0}"},
	{T("-0"), "0"},
	{T("\"\\/\""), "\"/\""},
	{T("\"\\u0041\""), "\"A\""},
	{T("\"\\u007f\""), "\"\x7f\""},
	{T("\"\\u0080\""), "\"\xc2\x80\""},
	{T("\"\\u07ff\""), "\"\xdf\xbf\""},
	{T("\"\\u0800\""), "\"\xe0\xa0\x80\""},
	{T("\"\\uD7FF\""), "\"\xed\x9f\xbf\""},
	{T("\"\\ue000\""), "\"\xee\x80\x80\""},
	{T("\"\\uFfFf\""), "\"\xef\xbf\xbf\""},
	{T("\"\\ud800\\udc00\""), "\"\xf0\x90\x80\x80\""},
	{T("\"\\uDBFF\\uDFFF\""), "\"\xf4\x8f\xbf\xbf\""},
	{T("\"\\ud83d\\ude00\""), "\"\xf0\x9f\x98\x80\""},
	{T("\"\\u2028\\u2029\""), "\"\xe2\x80\xa8\xe2\x80\xa9\""},
	{T("\"\\uabCD\""), "\"\xea\xaf\x8d\""},
	{T("\"\\u0061\\u30af\\u30EA\\u30b9\""), "\"a\xe3\x82\xaf\xe3\x83\xaa\xe3\x82\xb9\""},
	{T("\"\\\\\\u0061\""), "\"\\\\a\""},
};

/* Texts that are not JSON. */
static const struct text bad[] = {
	/* Structure. */
	T(""), T(" "), T("\n"), T("\0"), T("{"), T("}"), T("["), T("]"), T(","), T(":"), T("{]"),
	T("[}"), T("[["), T("[[]"), T("[]]"), T("{{}"), T("{}}"), T("[[]]]"), T("[,]"), T("[1,]"),
	T("[,1]"), T("[1,,2]"), T("[1 2]"), T("[1:2]"), T("[\"a\" \"b\"]"), T("[\"a\":1]"), T("[1"),
	T("[1,"), T("[\"a\""), T("[\"a"), T("[null"), T("[nul]"), T("{,}"), T("{1:1}"), T("{a:1}"),
	T("{null:1}"), T("{[]:1}"), T("{{}:1}"), T("{\"a\"}"), T("{\"a\":}"), T("{\"a\":1,}"),
	T("{,\"a\":1}"), T("{\"a\":1,,\"b\":2}"), T("{\"a\" 1}"), T("{\"a\":1 \"b\":2}"),
	T("{\"a\",1}"), T("{\"a\"::1}"), T("{\"a\":1:2}"), T("{\"a\":1"), T("{\"a\":"), T("{\"a\""),
	T("{\"a"), T("{\""), T("{\"a\":[}"), T("{\"a\":1]"), T("{:1}"), T("{\"a\":1;}"),
	T("{\"a\"=1}"), T("1 2"), T("null null"), T("{}{}"), T("[][]"), T("{} x"), T("[]x"),
	T("\"a\"x"), T("1x"), T("truefalse"), T("{},"), T("[],"), T("null,"), T("{}//"),
	T("{}/**/"), T("/**/{}"), T("//\n{}"), T("[1/**/]"), T("#\n{}"), T("{\"a\":1}#"), T("{}\0"),
	T("\0{}"), T("[\0]"), T("[1\0]"), T("{\"a\":1}\0{"), T("\xef\xbb\xbf{}"), T("\xef\xbb\xbf"),
	T("\xfe\xff"), T("\xff\xfe[\0]\0"), T("\f1"), T("\v1"), T("[\f]"), T("1\xc2\xa0"),
	T("\xe2\x81\xa0[]"), T("[\xc2\x85]"), T("\x1e{}"), T("<a>"),
	T("["
	  "\xe5]"),
	T("\xe5"), T("*"), T("[*]"), T("[\"a\",\n4\n,1,"), T("[$]"), T("{\"a\":$}"), T("[a]"),
	T("[\\n]"), T("\\u0020"), T("@"),
	/* Words. */
	T("True"), T("TRUE"), T("tru"), T("truex"), T("t"), T("fals"), T("False"), T("falsee"),
	T("nul"), T("Null"), T("NULL"), T("nullx"), T("n"), T("nil"), T("undefined"), T("NaN"),
	T("nan"), T("-NaN"), T("Infinity"), T("-Infinity"), T("inf"), T("[Inf]"), T("yes"),
	T("[tr\xc3\xbc]"),
	/* Numbers. */
	T("01"), T("00"), T("-01"), T("-00"), T("012"), T("0x1"), T("0x"), T("1."), T("-1."),
	T(".5"), T("-.5"), T("1.e5"), T("2.e+3"), T("0.e1"), T("1e"), T("1E"), T("1e+"), T("1e-"),
	T("1e+-1"), T("1e1.5"), T("1ee1"), T("1eE2"), T("1.2.3"), T("1..2"), T("-"), T("--1"),
	T("+1"), T("+"), T("-+1"), T("- 1"), T("1 000"), T("1,000"), T("1_000"), T("0b1"), T("1a"),
	T("-a"), T("1.5f"), T("1f"), T("0.1.2"), T("[-]"), T("[0e]"), T("[0e+]"), T("[0.3e]"),
	T("[0.3e+]"), T("[1+2]"), T("[-2.]"), T("[1e1e]"), T("[.123]"), T("[1.8011670033376514H]"),
	T("[\xef\xbc\x91]"), T("[0x42]"), T("[-1x]"), T("[1ea]"), T("[1\xe5]"), T("-1.5.0"),
	T("0e0.1"), T("0-1"), T("1-"), T("['1']"),
	/* Strings. */
	T("\""), T("\"a"), T("\"\\"), T("\"\\\""), T("\"\\\\\\\""), T("'a'"), T("'"), T("`a`"),
	T("a"), T("\"\t\""), T("\"\n\""), T("\"\r\""), T("\"\0\""), T("\"\x01\""), T("\"\x1f\""),
	T("\"a\x1f\""), T("\"12345678\x1f\""), T("\"1234567\x01\""), T("\"123456789012345\n\""),
	T("\"\\x41\""), T("\"\\a\""), T("\"\\0\""), T("\"\\'\""), T("\"\\v\""), T("\"\\U0041\""),
	T("\"\\B\""), T("\"\\ \""), T("\"\\\n\""), T("\"\\\0\""), T("\"\\\xf0\x9f\x8c\x80\""),
	T("\"\\u\""), T("\"\\u1\""), T("\"\\u12\""), T("\"\\u123\""), T("\"\\u123"),
	T("\"\\u12g4\""), T("\"\\u 123\""), T("\"\\u+123\""), T("\"\\u-123\""), T("\"\\u0x41\""),
	T("\"\\u{41}\""), T("\"\\u00\\\"\""), T("\"\\u\xc3\xa9\""), T("\"\\ud800\""),
	T("\"\\udbff\""), T("\"\\udc00\""), T("\"\\udfff\""), T("\"\\ud800a\""),
	T("\"\\ud800\\n\""), T("\"\\ud800\\u0041\""), T("\"\\ud800\\ud800\""),
	T("\"\\udc00\\ud800\""), T("\"\\ud800\\ue000\""), T("\"\\ud83d\\ude0\""),
	T("\"\\ud83d\\ude0g\""), T("\"\\ud83d\\\""), T("\"\\ud83d\\u\""), T("\"\\ud83d"),
	T("\"\\ud83d\\ude00\\ud83d\""), T("\"\\ud800\\udbff\""), T("\"\xff\""), T("\"\xfe\""),
	T("\"\x80\""), T("\"\xbf\""), T("\"\xc0\x80\""), T("\"\xc1\xbf\""), T("\"\xc3\""),
	T("\"\xc3\"\""), T("\"\xe0\x80\x80\""), T("\"\xe0\x9f\xbf\""), T("\"\xe2\x82\""),
	T("\"\xed\xa0\x80\""), T("\"\xed\xbf\xbf\""), T("\"\xed\xa0\xbd\xed\xb8\x80\""),
	T("\"\xf0\x80\x80\x80\""), T("\"\xf0\x8f\xbf\xbf\""), T("\"\xf0\x9f\x98\""),
	T("\"\xf4\x90\x80\x80\""), T("\"\xf5\x80\x80\x80\""), T("\"\xf8\x88\x80\x80\x80\""),
	T("\"a\xe5\""), T("\"12345678\xff\""), T("\"1234567\xc3\\n\""), T("\"\xe2\x28\xa1\""),
	T("{\"a\xff\":1}"), T("\"\"\"\""),
	/* Names: only strings, without NUL, and none twice. */
	T("{'a':1}"), T("{'':1}"), T("{'\"':1}"), T("{\"a':1}"), T("{'a\":1}"),
	T("{'jsonrpc':'2.0'}"), T("{\"a\\u0000b\":1}"), T("{\"a\\u0000\" \t:1}"),
	T("{\"\\u0000\":1}"), T("{\"a\0b\":1}"), T("{\"a\":1,\"a\":1}"), T("{\"a\":1,\"a\":2}"),
	T("{\"a\":1,\"b\":2,\"a\":3}"), T("{\"a\":1,\"\\u0061\":2}"), T("{\"\":1,\"\":2}"),
	T("{\"\xc3\xa9\":1,\"\\u00e9\":2}"), T("{\"a\":{},\"a\":{}}"),
	T("[{\"a\":{\"b\":1,\"b\":null}}]"), T("{\"a\":null,\"a\":1}"), T("{\"\\ud800\":1}"),
	T("{\"\x01\":1}"), T("{\"a\n\":1}"), T("{\"a\\x\":1}"),
	/* Text that once confused the tracking of strings. */
	T("{'\"':1,\"a\":[[],[]]}"), T("{'\"':\"\x01\"}"), T("{'\"':01}"), T("{'\"':NaN,'\"':1}")};

static void assert_read(struct text text, const char *written)
{
	struct json_object *value = (struct json_object *)(intptr_t)1;
	struct json_report report;

	if (read_exactly(text, &all, &value, &report) < 0)
		fail_msg("%s: %s at %zu", text.data, report.fault, report.at);
	assert_null(report.fault);
	assert_int_equal(report.at, text.len);
	assert_string_equal(json_object_to_json_string_ext(
				    value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE),
		written);
	json_object_put(value);
}

TEST(test_good)
{
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_read(good[i], good[i].data);
	for (size_t i = 0; i < ARRAY_SIZE(rewritten); i++)
		assert_read(rewritten[i].text, rewritten[i].written);
}

TEST(test_bad)
{
	assert_true(ARRAY_SIZE(good) + ARRAY_SIZE(rewritten) + ARRAY_SIZE(bad) > 400);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct json_object *value = NULL;
		struct json_report report;
		int r = read_exactly(bad[i], &all, &value, &report);

		if (r != -EBADMSG)
			fail_msg("%zu: %s", i, bad[i].data);
		assert_null(value);
		assert_non_null(report.fault);
		assert_in_range(report.at, 0, bad[i].len);
	}
}

/* A proper prefix of a text that needs its end is refused. */
TEST(test_every_beginning)
{
	static const struct text whole =
		T("{\"a\\u0041\xe2\x82\xac\":[-1.5e+3,true,null,\"\\ud83d\\ude00\\n\"],\"b\":{}}");
	struct json_report report;
	struct json_object *value;

	for (size_t len = 0; len < whole.len; len++)
		assert_int_equal(
			read_exactly((struct text){whole.data, len}, &all, &value, &report),
			-EBADMSG);
	assert_int_equal(read_exactly(whole, &all, &value, &report), 0);
	json_object_put(value);
}

/* Each of the 65,536 escapes alone, compared with RFC 3629. */
TEST(test_every_escape)
{
	for (unsigned unit = 0; unit <= 0xffff; unit++) {
		bool surrogate = unit >= 0xd800 && unit <= 0xdfff;
		struct json_object *value;
		struct json_report report;
		unsigned char want[4];
		char text[16];
		size_t len = (size_t)snprintf(text, sizeof(text), "\"\\u%04x\"", unit);
		size_t want_len = unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;

		want[0] = (unsigned char)(want_len == 1   ? unit
					  : want_len == 2 ? 0xc0 | unit >> 6
							  : 0xe0 | unit >> 12);
		want[1] = (unsigned char)(0x80 | (want_len == 2 ? unit : unit >> 6 & 0x3f));
		if (want_len == 2)
			want[1] = (unsigned char)(0x80 | (unit & 0x3f));
		want[2] = (unsigned char)(0x80 | (unit & 0x3f));
		assert_int_equal(json_read((struct text){text, len}, &all, &value, &report),
			surrogate ? -EBADMSG : 0);
		if (surrogate)
			continue;
		assert_int_equal(json_object_get_string_len(value), want_len);
		assert_memory_equal(json_object_get_string(value), want, want_len);
		json_object_put(value);
	}
}

static void assert_type(const char *text, enum json_type type)
{
	struct json_object *value;
	struct json_report report;

	assert_int_equal(json_read(text_from(text), &all, &value, &report), 0);
	assert_true(json_object_is_type(value, type));
	json_object_put(value);
}

/* Nothing is rounded silently: a number beyond 64 bits is not an integer. */
TEST(test_integers_are_exact)
{
	struct json_object *value;
	struct json_report report;

	assert_type("-9223372036854775808", json_type_int);
	assert_type("-9223372036854775809", json_type_double);
	assert_type("18446744073709551615", json_type_int);
	assert_type("18446744073709551616", json_type_double);
	assert_type("184467440737095516150", json_type_double);
	assert_type("1.0", json_type_double);
	assert_type("1e0", json_type_double);
	assert_int_equal(json_read(T("18446744073709551615"), &all, &value, &report), 0);
	assert_true(json_object_get_uint64(value) == UINT64_MAX);
	json_object_put(value);
	assert_int_equal(json_read(T("-9223372036854775808"), &all, &value, &report), 0);
	assert_true(json_object_get_int64(value) == INT64_MIN);
	json_object_put(value);
}

/* A fault and its position are reported. */
TEST(test_reports)
{
	static const struct {
		const char *text, *fault;
		size_t at;
	} cases[] = {
		{"{\"a\":1,\"a\":2}", "a name that is given twice", 7},
		{"{'a':1}", "strings and names are quoted with \"", 1},
		{"[1,2", "the text ends too early", 4},
		{"[1;2]", "unexpected character", 2},
		{"{} x", "something after the end of the value", 3},
		{"[01]", "invalid number", 3},
		{"\"ab\\q\"", "invalid escape in a string", 3},
		{"\"a\xff\"", "invalid UTF-8", 2},
		{"\"a\nb\"", "a control character in a string", 2},
		{"\"ab", "a string that does not end", 3},
		{"{\"a\\u0000\":1}", "a name that holds a NUL character", 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct json_object *value;
		struct json_report report;

		assert_int_equal(
			json_read(text_from(cases[i].text), &all, &value, &report), -EBADMSG);
		assert_string_equal(report.fault, cases[i].fault);
		assert_int_equal(report.at, cases[i].at);
	}
}
