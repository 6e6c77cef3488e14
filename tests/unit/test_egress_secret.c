/* links: cloister-egress-rules */
// SPDX-License-Identifier: Apache-2.0
/* Lines of egress_secret, and what a secret's file must be. */
#include "common/egress/secret_line.h"
#include "tests/lib/unit.h"

static void check_text(struct text text, const char *expected)
{
	if (!text_equal(text, text_from(expected)))
		fail_msg("%.*s is not %s", (int)text.len, text.data, expected);
}

TEST(test_lines)
{
	struct secret_line line;
	char why[200];

	assert_int_equal(secret_line_parse(text_from("a-1 host=API.test:8443 "
						     "header=\"Authorization:  Bearer \" "
						     "file=\"/etc/a b\""),
				 &line, why, sizeof(why)),
		0);
	check_text(line.name, "a-1");
	assert_string_equal(line.host.text, "api.test");
	assert_int_equal(line.port, 8443);
	check_text(line.field, "Authorization");
	check_text(line.prefix, "Bearer");
	check_text(line.file, "/etc/a b");
	assert_int_equal(secret_line_parse(text_from("  x\tfile=/k\theader=X-Key  host=[::1] "),
				 &line, why, sizeof(why)),
		0);
	assert_int_equal(line.port, 443);
	assert_int_equal(line.host.kind, HOST_IPV6);
	check_text(line.field, "X-Key");
	assert_int_equal(line.prefix.len, 0);
}

TEST(test_mistakes)
{
	static const struct {
		const char *line, *why;
	} mistakes[] = {
		{"", "begins with its name"},
		{"A host=a header=X file=/k", "begins with its name"},
		{"-a host=a header=X file=/k", "begins with its name"},
		{"a- host=a header=X file=/k", "begins with its name"},
		{"a.b host=a header=X file=/k", "begins with its name"},
		{"a_b host=a header=X file=/k", "begins with its name"},
		{"0123456789012345678901234567890123456789012345678901234567890123 host=a header=X "
		 "file=/k",
			"begins with its name"},
		{"a", "write NAME"},
		{"a host=a header=X", "write NAME"},
		{"a host=a host=b header=X file=/k", "write NAME"},
		{"a host=a header=X file=/k more=1", "write NAME"},
		{"a host=a header=X file=/k more", "write NAME"},
		{"a host=a header=\"X file=/k", "write NAME"},
		{"a host=a header=\"X\"file=/k", "write NAME"},
		{"a host=a header=X\" file=/k", "write NAME"},
		{"a host= header=X file=/k", "host="},
		{"a host=https://a header=X file=/k", "host="},
		{"a host=a:0 header=X file=/k", "host="},
		{"a host=*.a header=X file=/k", "host="},
		{"a host=a header= file=/k", "header="},
		{"a host=a header=\": x\" file=/k", "header="},
		{"a host=a header=\"X Y: z\" file=/k", "header="},
		{"a host=a header=Host file=/k", "header="},
		{"a host=a header=transfer_encoding file=/k", "header="},
		{"a host=a header=\"Content-Length: 1\" file=/k", "header="},
		{"a host=a header=\"X: \x7f\" file=/k", "header="},
		{"a host=a header=X file=k", "file="},
		{"a host=a header=X file=/", "file="},
		{"a host=a header=X file=/k/", "file="},
	};

	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++) {
		struct secret_line line;
		char why[200] = "";

		if (secret_line_parse(text_from(mistakes[i].line), &line, why, sizeof(why)) !=
				-EINVAL ||
			!strstr(why, mistakes[i].why))
			fail_msg("%s: %s", mistakes[i].line, why);
	}
}

/* Whoever writes the secret itself into the line does not find it in the log. */
TEST(test_mistakes_quote_nothing)
{
	struct secret_line line;
	char why[200];

	assert_int_equal(secret_line_parse(text_from("a host=a header=\"Authorization\n: sk-1\" "
						     "file=/k"),
				 &line, why, sizeof(why)),
		-EINVAL);
	assert_null(strstr(why, "sk-1"));
}

TEST(test_files)
{
	struct stat file = {.st_mode = S_IFREG | 0600};

	assert_null(secret_file_wrong(&file));
	file.st_mode = S_IFREG | 0640;
	assert_null(secret_file_wrong(&file));
	for (unsigned bit = 1; bit <= 020; bit <<= 1) {
		file.st_mode = S_IFREG | 0600 | bit;
		if (bit != 010)
			assert_non_null(secret_file_wrong(&file));
	}
	file.st_mode = S_IFIFO | 0600;
	assert_non_null(secret_file_wrong(&file));
}
