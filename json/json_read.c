// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, in the commands and in programs that use libcloister. The bytes may come from
 * an attacker. A token is scanned completely before its value is made.
 */
#include "json/json_read.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "json/json_string.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>

/*
 * The heap that json-c 0.16 takes with glibc on a 64-bit machine. An object is two small structs
 * and a table of 16 entries of 40 bytes, which doubles when it is two thirds full. An array is two
 * small structs and its pointers. A value is at most 56 bytes plus its text.
 * tests/unit/test_json_bounds.c compares these numbers with malloc(3)'s statistics.
 */
#define OBJECT_BYTES  (64 + 80)
#define TABLE_ENTRIES ((size_t)16)
#define ENTRY_BYTES   40
#define ARRAY_BYTES   (64 + 48)
#define ARRAY_ENTRIES ((size_t)4)
#define VALUE_BYTES   56
#define MAPPED_BYTES  (128 * KIB) /* mallopt(3), M_MMAP_THRESHOLD */

struct reader {
	const char *begin, *at, *end;
	size_t values; /* number of values still allowed */
	size_t memory; /* bytes of memory still allowed */
	unsigned depth;
	const char *fault;
};

static void put_read_json(struct json_object **json)
{
	json_object_put(*json);
}
#define _cleanup_json_ _cleanup_(put_read_json)

static int read_value(struct reader *reader, struct json_object **ret);

static int fail_json_read(struct reader *reader, int error, const char *fault)
{
	reader->fault = fault;
	return error;
}

/* Fails because the next token is not one that is allowed here. */
static int fail_here(struct reader *reader)
{
	const char *fault = "unexpected character";

	if (reader->at == reader->end)
		fault = "the text ends too early";
	else if (*reader->at == '\0')
		fault = "a NUL character";
	else if (*reader->at == '\'')
		fault = "strings and names are quoted with \"";
	return fail_json_read(reader, -EBADMSG, fault);
}

/* Counts an allocation of @size bytes with the overhead of malloc(3). */
static int charge_json_memory(struct reader *reader, size_t size)
{
	/* A large allocation is a mapping of its own, in whole pages. */
	const size_t unit = size < MAPPED_BYTES ? 16 : 4 * KIB;
	size_t bytes = (size + 16 + unit - 1) / unit * unit;

	if (bytes > reader->memory)
		return fail_json_read(reader, -ENOBUFS, "more values than memory is given for");
	reader->memory -= bytes;
	return 0;
}

static void skip_space(struct reader *reader)
{
	while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' ||
						   *reader->at == '\n' || *reader->at == '\r'))
		reader->at++;
}

/* Skips @c if it comes next. Returns whether it did. */
static bool take_json_char(struct reader *reader, char c)
{
	if (reader->at == reader->end || *reader->at != c)
		return false;
	reader->at++;
	return true;
}

static size_t take_digits(struct reader *reader)
{
	const char *from = reader->at;

	while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
		reader->at++;
	return (size_t)(reader->at - from);
}

static int scan_string(struct reader *reader, struct json_string *ret)
{
	struct text rest = {reader->at, (size_t)(reader->end - reader->at)};
	const char *fault = json_string_scan(rest, ret);

	reader->at += ret->taken;
	return fault ? fail_json_read(reader, -EBADMSG, fault) : 0;
}

static int read_string(struct reader *reader, struct json_object **ret)
{
	struct json_object *object;
	struct json_string string;
	int r = scan_string(reader, &string);

	if (r == 0)
		r = charge_json_memory(reader, VALUE_BYTES + string.len + 1);
	if (r < 0)
		return r;
	/* json-c copies the raw bytes; if there are escapes, the decoded text replaces them. */
	object = json_object_new_string_len(string.raw.data, (int)string.len);
	if (!object)
		return -ENOMEM;
	if (string.len != string.raw.len)
		json_string_decode(&string, (char *)json_object_get_string(object));
	*ret = object;
	return 0;
}

/* Reads the name of a member, for the caller to free. */
static int read_member_name(struct reader *reader, char **ret_name)
{
	const char *from = reader->at;
	struct json_string string;
	char *name;
	int r;

	if (reader->at == reader->end || *reader->at != '"')
		return fail_here(reader);
	r = scan_string(reader, &string);
	if (r == 0 && string.has_nul) {
		reader->at = from;
		r = fail_json_read(reader, -EBADMSG, "a name that holds a NUL character");
	}
	if (r == 0)
		r = charge_json_memory(reader, string.len + 1);
	if (r < 0)
		return r;
	name = malloc(string.len + 1);
	if (!name)
		return -ENOMEM;
	json_string_decode(&string, name);
	name[string.len] = '\0';
	*ret_name = name;
	return 0;
}

/* RFC 8259 section 6. */
static int scan_number(struct reader *reader, struct text *ret, bool *ret_integer)
{
	const char *from = reader->at;
	size_t digits;
	bool zero;

	take_json_char(reader, '-');
	zero = reader->at < reader->end && *reader->at == '0';
	digits = take_digits(reader);
	if (digits == 0 || (zero && digits > 1))
		return fail_json_read(reader, -EBADMSG, "invalid number");
	*ret_integer = true;
	if (take_json_char(reader, '.')) {
		*ret_integer = false;
		if (take_digits(reader) == 0)
			return fail_json_read(reader, -EBADMSG, "invalid number");
	}
	if (take_json_char(reader, 'e') || take_json_char(reader, 'E')) {
		*ret_integer = false;
		if (!take_json_char(reader, '+'))
			take_json_char(reader, '-');
		if (take_digits(reader) == 0)
			return fail_json_read(reader, -EBADMSG, "invalid number");
	}
	*ret = (struct text){from, (size_t)(reader->at - from)};
	if (ret->len > LIMIT_JSON_NUMBER_BYTES)
		return fail_json_read(reader, -EMSGSIZE, "a number of too many digits");
	return 0;
}

/* Returns the 64-bit integer in @text, or NULL with *ret_fits false if it does not fit. */
static struct json_object *make_integer(struct text text, bool *ret_fits)
{
	const bool negative = text.data[0] == '-';
	uint64_t magnitude = 0;

	*ret_fits = true;
	for (size_t i = negative; i < text.len; i++)
		if (__builtin_mul_overflow(magnitude, 10, &magnitude) ||
			__builtin_add_overflow(
				magnitude, (uint64_t)(text.data[i] - '0'), &magnitude))
			*ret_fits = false;
	if (negative && magnitude > (uint64_t)INT64_MAX + 1)
		*ret_fits = false;
	if (!*ret_fits)
		return NULL;
	if (negative)
		return json_object_new_int64((int64_t)(0 - magnitude));
	return magnitude <= INT64_MAX ? json_object_new_int64((int64_t)magnitude)
				      : json_object_new_uint64(magnitude);
}

/* Independent of the locale that the program has set. */
static struct json_object *make_double(struct text text)
{
	locale_t locale = newlocale(LC_ALL_MASK, "C", NULL);
	char copy[LIMIT_JSON_NUMBER_BYTES + 1];
	struct json_object *object;

	if (!locale)
		return NULL;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	object = json_object_new_double_s(strtod_l(copy, NULL, locale), copy);
	freelocale(locale);
	return object;
}

static int read_json_number(struct reader *reader, struct json_object **ret)
{
	bool integer = false;
	struct text text;
	int r = scan_number(reader, &text, &integer);

	if (r == 0)
		r = charge_json_memory(reader, VALUE_BYTES);
	if (r < 0)
		return r;
	*ret = integer ? make_integer(text, &integer) : NULL;
	if (!integer) {
		r = charge_json_memory(reader, text.len + 1);
		if (r < 0)
			return r;
		*ret = make_double(text);
	}
	return *ret ? 0 : -ENOMEM;
}

/* Skips the word true, false or null. */
static int take_json_word(struct reader *reader, struct text word)
{
	if ((size_t)(reader->end - reader->at) < word.len ||
		memcmp(reader->at, word.data, word.len) != 0)
		return fail_json_read(reader, -EBADMSG, "unexpected character");
	reader->at += word.len;
	return 0;
}

static int read_boolean(struct reader *reader, struct json_object **ret)
{
	bool value = *reader->at == 't';
	int r = take_json_word(reader, value ? TEXT_LITERAL("true") : TEXT_LITERAL("false"));

	if (r == 0)
		r = charge_json_memory(reader, VALUE_BYTES);
	if (r < 0)
		return r;
	*ret = json_object_new_boolean(value);
	return *ret ? 0 : -ENOMEM;
}

/* Skips the opening bracket of an object or array, and counts its own memory @size and @entries. */
static int enter_json_bracket(struct reader *reader, size_t size, size_t entries)
{
	int r;

	if (reader->depth == LIMIT_JSON_DEPTH)
		return fail_json_read(reader, -EBADMSG, "the nesting is too deep");
	reader->depth++;
	r = charge_json_memory(reader, size);
	if (r == 0)
		r = charge_json_memory(reader, entries);
	reader->at++;
	skip_space(reader);
	return r;
}

/* Skips the closing bracket. */
static int leave_json_bracket(struct reader *reader, char bracket)
{
	skip_space(reader);
	if (!take_json_char(reader, bracket))
		return fail_here(reader);
	reader->depth--;
	return 0;
}

/* Whether another member or element follows. */
static bool take_comma(struct reader *reader)
{
	skip_space(reader);
	if (!take_json_char(reader, ','))
		return false;
	skip_space(reader);
	return true;
}

static int read_member(struct reader *reader, struct lh_table *table)
{
	const char *from = reader->at;
	_cleanup_free_ char *name = NULL;
	struct json_object *value = NULL;
	unsigned long hash;
	int r = read_member_name(reader, &name);

	if (r < 0)
		return r;
	hash = lh_get_hash(table, name);
	if (lh_table_lookup_entry_w_hash(table, name, hash)) {
		reader->at = from;
		return fail_json_read(reader, -EBADMSG, "a name that is given twice");
	}
	skip_space(reader);
	if (!take_json_char(reader, ':'))
		return fail_here(reader);
	skip_space(reader);
	r = read_value(reader, &value);
	if (r < 0)
		return r;
	if (lh_table_insert_w_hash(table, name, value, hash, 0) < 0) {
		json_object_put(value);
		return -ENOMEM;
	}
	TAKE_PTR(name);
	return 0;
}

static int read_members(struct reader *reader, struct json_object *object)
{
	struct lh_table *table = json_object_get_object(object);
	size_t room = TABLE_ENTRIES, count = 0;
	int r = 0;

	if (reader->at < reader->end && *reader->at == '}')
		return 0;
	do {
		if (count == LIMIT_JSON_MEMBERS)
			return fail_json_read(reader, -EMSGSIZE, "too many members in one object");
		if (++count * 3 >= room * 2) {
			room *= 2;
			r = charge_json_memory(reader, room * ENTRY_BYTES);
		}
		if (r == 0)
			r = read_member(reader, table);
	} while (r == 0 && take_comma(reader));
	return r;
}

static int read_object(struct reader *reader, struct json_object **ret)
{
	_cleanup_json_ struct json_object *object = NULL;
	int r = enter_json_bracket(reader, OBJECT_BYTES, TABLE_ENTRIES * ENTRY_BYTES);

	if (r < 0)
		return r;
	object = json_object_new_object();
	if (!object)
		return -ENOMEM;
	r = read_members(reader, object);
	if (r == 0)
		r = leave_json_bracket(reader, '}');
	if (r == 0)
		*ret = TAKE_PTR(object);
	return r;
}

static int read_element(struct reader *reader, struct json_object *array)
{
	struct json_object *value = NULL;
	int r = read_value(reader, &value);

	if (r == 0 && json_object_array_add(array, value) < 0) {
		json_object_put(value);
		r = -ENOMEM;
	}
	return r;
}

static int read_elements(struct reader *reader, struct json_object *array)
{
	size_t room = ARRAY_ENTRIES, count = 0;
	int r = 0;

	if (reader->at < reader->end && *reader->at == ']')
		return 0;
	do {
		if (count++ == room) {
			room *= 2;
			r = charge_json_memory(reader, room * sizeof(void *));
		}
		if (r == 0)
			r = read_element(reader, array);
	} while (r == 0 && take_comma(reader));
	return r;
}

static int read_array(struct reader *reader, struct json_object **ret)
{
	_cleanup_json_ struct json_object *array = NULL;
	int r = enter_json_bracket(reader, ARRAY_BYTES, ARRAY_ENTRIES * sizeof(void *));

	if (r < 0)
		return r;
	array = json_object_new_array_ext((int)ARRAY_ENTRIES);
	if (!array)
		return -ENOMEM;
	r = read_elements(reader, array);
	if (r == 0)
		r = leave_json_bracket(reader, ']');
	if (r == 0)
		*ret = TAKE_PTR(array);
	return r;
}

static int read_value(struct reader *reader, struct json_object **ret)
{
	if (reader->values == 0)
		return fail_json_read(reader, -EMSGSIZE, "too many values");
	reader->values--;
	switch (reader->at < reader->end ? *reader->at : '\0') {
	case '{':
		return read_object(reader, ret);
	case '[':
		return read_array(reader, ret);
	case '"':
		return read_string(reader, ret);
	case 't':
	case 'f':
		return read_boolean(reader, ret);
	case 'n':
		*ret = NULL;
		return take_json_word(reader, TEXT_LITERAL("null"));
	case '-':
	case '0' ... '9':
		return read_json_number(reader, ret);
	default:
		return fail_here(reader);
	}
}

int json_read(struct text text, const struct json_bounds *bounds, struct json_object **ret_value,
	struct json_report *ret_report)
{
	const char *begin = text.len > 0 ? text.data : "";
	struct reader reader = {
		.begin = begin,
		.at = begin,
		.end = begin + text.len,
		.values = bounds->values,
		.memory = bounds->memory,
	};
	struct json_object *value = NULL;
	int r = 0;

	/* json-c uses int for lengths. */
	if (text.len > INT_MAX)
		r = fail_json_read(&reader, -EMSGSIZE, "too long");
	skip_space(&reader);
	if (r == 0)
		r = read_value(&reader, &value);
	if (r == 0)
		skip_space(&reader);
	if (r == 0 && reader.at < reader.end) {
		json_object_put(value);
		r = *reader.at == '\0' ? fail_here(&reader)
				       : fail_json_read(&reader, -EBADMSG,
						 "something after the end of the value");
	}
	*ret_report = (struct json_report){
		reader.fault, (size_t)(reader.at - reader.begin), bounds->memory - reader.memory};
	if (r == 0)
		*ret_value = value;
	return r;
}

struct json_bounds json_request_bounds(size_t len)
{
	return (struct json_bounds){LIMIT_JSON_VALUES, len + LIMIT_JSON_MEMORY_BYTES};
}
