/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/multipart.h"
#include "tests/lib/unit.h"

/* What a reader told, as text: "[name|filename]data;" for each part. */
static char told[4096];

static void say(const char *text, size_t len)
{
	strncat(told, text, len);
}

static void on_begin(void *context, const char *name, const char *filename)
{
	(void)context;
	say("[", 1);
	say(name ? name : "-", 99);
	say("|", 1);
	say(filename ? filename : "-", 99);
	say("]", 1);
}

static void on_data(void *context, struct text data)
{
	(void)context;
	assert_true(data.len > 0);
	say(data.data, data.len);
}

static void on_end(void *context)
{
	(void)context;
	say(";", 1);
}

static const struct multipart_events events = {on_begin, on_data, on_end};

/* Reads @body in pieces of @piece bytes. Returns whether it is whole, or an error. */
static int take(const char *type, const char *body, size_t piece)
{
	struct text rest = text_from(body);
	struct multipart *multipart;
	int r = multipart_new(type, &events, NULL, &multipart);

	told[0] = '\0';
	if (r < 0)
		return r;
	while (r == 0 && rest.len > 0) {
		struct text next = {rest.data, rest.len < piece ? rest.len : piece};

		r = multipart_take(multipart, next);
		rest.data += next.len;
		rest.len -= next.len;
	}
	if (r == 0)
		r = multipart_is_whole(multipart);
	multipart_free(multipart);
	return r;
}

#define TYPE       "multipart/form-data; boundary=BB"
#define FILE_OF(n) "Content-Disposition: form-data; name=\"file\"; filename=\"" n "\"\r\n\r\n"

static void assert_read(const char *body, int expected, const char *expected_told)
{
	for (size_t piece = 1; piece <= strlen(body) + 1; piece++) {
		assert_int_equal(take(TYPE, body, piece), expected);
		assert_string_equal(told, expected_told);
	}
}

TEST(test_parts_are_the_same_in_any_pieces)
{
	assert_read("--BB\r\n" FILE_OF("a") "one\r\n--BB\r\n" FILE_OF("b/c") "two\r\n--BB--\r\n", 1,
		"[file|a]one;[file|b/c]two;");
	assert_read(
		"before\r\n--BB \t\r\nX: y\r\n" FILE_OF("a") "\r\n\r\n--B\r\r\n--\r\n--BB--after",
		1, "[file|a]\r\n\r\n--B\r\r\n--;");
	assert_read("--BB\r\n\r\nx\r\n--BB--", 1, "[-|-]x;");
}

TEST(test_an_empty_part_is_one_part)
{
	assert_read("--BB\r\n" FILE_OF("a") "\r\n--BB--", 1, "[file|a];");
	assert_read("--BB\r\n" FILE_OF("a") "--BB--", 1, "[file|a];");
	assert_read("--BB\r\n" FILE_OF("a") "--B\r\n--BB--", 1, "[file|a]--B;");
}

TEST(test_a_part_that_is_cut_never_ends)
{
	static const char body[] = "--BB\r\n" FILE_OF("a") "one\r\n--BB--";

	for (size_t len = 0; len < sizeof(body) - 1; len++) {
		_cleanup_free_ char *cut = strndup(body, len);

		assert_int_equal(take(TYPE, cut, 5), 0);
		assert_true(len >= sizeof(body) - 3 || !strchr(told, ';'));
	}
}

TEST(test_a_file_has_the_name_that_was_given)
{
	assert_read("--BB\r\n" FILE_OF("a\\\"b") "\r\n--BB--", 1, "[file|a\"b];");
	assert_read("--BB\r\n" FILE_OF("C:\\d\\\\e") "\r\n--BB--", 1, "[file|C:\\d\\e];");
	assert_read("--BB\r\ncontent-disposition:form-data;filename=a;NAME=n;filename*="
		    "x\r\n\r\n\r\n--BB--",
		1, "[n|a];");
	assert_read("--BB\r\n" FILE_OF("a; name=b") "\r\n--BB--", 1, "[file|a; name=b];");
}

TEST(test_heads_that_are_refused)
{
	static const char *const heads[] = {
		"Content-Disposition: form-data; name=\"a",
		"Content-Disposition: form-data; name=a; name=b",
		"Content-Disposition: form-data; name",
		"Content-Disposition: form-data name=a",
		"Content-Disposition: attachment; name=a",
		"Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b",
		"Content-Disposition: form-data;\r\n name=a",
		"Content-Disposition: form-data; name=a\nX: y",
		"no colon",
		": no name",
	};
	char body[256];

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		snprintf(body, sizeof(body), "--BB\r\n%s\r\n\r\nx\r\n--BB--", heads[i]);
		assert_int_equal(take(TYPE, body, sizeof(body)), -EBADMSG);
		assert_string_equal(told, "");
	}
}

TEST(test_a_head_has_a_bound)
{
	char body[16384];

	memset(body, 'x', sizeof(body) - 1);
	memcpy(body, "--BB\r\nX: ", 9);
	body[sizeof(body) - 1] = '\0';
	assert_int_equal(take(TYPE, body, 100), -EBADMSG);
}

TEST(test_what_follows_a_delimiter)
{
	assert_int_equal(take(TYPE, "--BBx\r\n\r\n", 99), -EBADMSG);
	assert_int_equal(take(TYPE, "--BB-x", 99), -EBADMSG);
	assert_int_equal(take(TYPE, "--BB\rx", 99), -EBADMSG);
}

TEST(test_types_and_boundaries)
{
	static const char body[] = "--a b\r\n\r\n\r\n--a b--";
	char type[300];

	assert_int_equal(take("multipart/form-data; charset=x; Boundary=\"a b\"", body, 9), 1);
	assert_int_equal(take("multipart/form-data", body, 9), -EINVAL);
	assert_int_equal(take("multipart/form-data; boundary=", body, 9), -EINVAL);
	assert_int_equal(take("multipart/form-data; boundary=\"\"", body, 9), -EINVAL);
	assert_int_equal(take("multipart/form-data; boundary=\"", body, 9), -EINVAL);
	assert_int_equal(take("multipart/form-data; boundary=a; boundary=b", body, 9), -EINVAL);
	snprintf(type, sizeof(type), "multipart/form-data; boundary=%0*d",
		LIMIT_MULTIPART_BOUNDARY_BYTES + 1, 0);
	assert_int_equal(take(type, body, 9), -EINVAL);
	assert_true(multipart_is_type("Multipart/Form-Data;boundary=x"));
	assert_false(multipart_is_type("multipart/form-datax"));
	assert_false(multipart_is_type(NULL));
}
