/* links: cloister-json */
/* SPDX-License-Identifier: Apache-2.0 */

/* The bounds on the values in a text, and how much memory is counted for its value. */

#include "tests/lib/unit.h"
#include "json/json_read.h"

#include <json-c/json.h>
#include <malloc.h>

static const struct json_bounds all = {LIMIT_JSON_VALUES, 64 * MIB};

/* Returns @n times @part between @head and @tail, to be freed. */
static struct text repeat(const char *head, const char *part, size_t n, const char *tail)
{
	size_t size = strlen(head) + n * strlen(part) + strlen(tail) + 1, len;
	char *text = malloc(size);

	assert_non_null(text);
	len = (size_t)snprintf(text, size, "%s", head);
	for (size_t i = 0; i < n; i++, len += strlen(part))
		memcpy(text + len, part, strlen(part));
	len += (size_t)snprintf(text + len, size - len, "%s", tail);
	return (struct text){text, len};
}

static int read_and_free(struct text text, const struct json_bounds *bounds)
{
	struct json_object *value = NULL;
	struct json_report report;
	int r = json_read(text, bounds, &value, &report);

	assert_true(r == 0 || report.fault);
	json_object_put(value);
	free((char *)text.data);
	return r;
}

static struct text object_of(size_t members)
{
	size_t size = members * 16 + 3, len = 1;
	char *text = malloc(size);

	assert_non_null(text);
	text[0] = '{';
	for (size_t i = 0; i < members; i++)
		len += (size_t)snprintf(
			text + len, size - len, "%s\"n%zu\":0", i > 0 ? "," : "", i);
	len += (size_t)snprintf(text + len, size - len, "}");
	return (struct text){text, len};
}

TEST(test_bounds)
{
	const struct json_bounds ten = {10, 64 * MIB};

	assert_int_equal(read_and_free(repeat("[0", ",0", 8, "]"), &ten), 0);
	assert_int_equal(read_and_free(repeat("[0", ",0", 9, "]"), &ten), -EMSGSIZE);
	assert_int_equal(read_and_free(repeat("[null", ",null", 9, "]"), &ten), -EMSGSIZE);
	assert_int_equal(read_and_free(object_of(9), &ten), 0);
	assert_int_equal(read_and_free(object_of(10), &ten), -EMSGSIZE);
	assert_int_equal(read_and_free(object_of(LIMIT_JSON_MEMBERS), &all), 0);
	assert_int_equal(read_and_free(object_of(LIMIT_JSON_MEMBERS + 1), &all), -EMSGSIZE);
	assert_int_equal(read_and_free(repeat("1", "0", LIMIT_JSON_NUMBER_BYTES - 1, ""), &all), 0);
	assert_int_equal(
		read_and_free(repeat("1", "0", LIMIT_JSON_NUMBER_BYTES, ""), &all), -EMSGSIZE);
	for (size_t extra = 0; extra <= 1; extra++) {
		struct text open = repeat("", "[", LIMIT_JSON_DEPTH + extra, "");
		struct text text = repeat(open.data, "]", LIMIT_JSON_DEPTH + extra, "");

		assert_int_equal(read_and_free(text, &all), extra ? -EBADMSG : 0);
		free((char *)open.data);
	}
}

/* Returns the bytes of the heap in use. */
static size_t in_use(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

/* At least a value's memory is counted, and a refused text takes no more than its bound. */
TEST(test_memory_is_counted)
{
	static const struct {
		const char *head, *part, *tail;
		size_t n;
	} cases[] = {
		{"[{}", ",{}", "]", 4000},
		{"[[]", ",[]", "]", 4000},
		{"[0", ",0", "]", 16000},
		{"[null", ",null", "]", 16000},
		{"[true", ",false", "]", 16000},
		{"[1.5", ",2e1", "]", 16000},
		{"[\"\"", ",\"\"", "]", 16000},
		{"[\"0123456\"", ",\"01234567\"", "]", 16000},
		{"[{\"a\":1}", ",{\"a\":{\"b\":[1]}}", "]", 2000},
		{"\"", "x", "\"", 1000000},
		{"\"", "\\n", "\"", 1000000},
		{"\"", "\\u20ac", "\"", 300000},
		{"[[[0", ",0", "]]]", 5},
	};

	for (size_t i = 0; i <= ARRAY_SIZE(cases); i++) {
		struct text text = i < ARRAY_SIZE(cases) ? repeat(cases[i].head, cases[i].part,
								   cases[i].n, cases[i].tail)
							 : object_of(LIMIT_JSON_MEMBERS);
		struct json_bounds less = all;
		struct json_object *value;
		struct json_report report;
		size_t before = in_use();

		assert_int_equal(json_read(text, &all, &value, &report), 0);
		assert_in_range(in_use() - before, 0, report.memory);
		/* Not much more is counted either; malloc(3) also counts blocks kept for later. */
		if (in_use() > before)
			assert_in_range(report.memory, 0, 4 * (in_use() - before) + 256 * KIB);
		json_object_put(value);
		less.memory = report.memory - 1;
		assert_int_equal(json_read(text, &less, &value, &report), -ENOBUFS);
		assert_in_range(report.memory, 0, less.memory);
		less.memory++;
		assert_int_equal(json_read(text, &less, &value, &report), 0);
		json_object_put(value);
		free((char *)text.data);
	}
}
