/* links: cloister-json fuzz-reference-json */
// SPDX-License-Identifier: Apache-2.0
/*
 * The JSON reader, compared with jansson, which is equally strict: both accept the same texts and
 * read the same values. The comparison leaves out numbers outside jansson's own bounds (integers of
 * 63 bits, finite doubles). The reader counts memory before it allocates it, so a bound that is
 * reached in the middle of a text refuses the whole text and has no other effect.
 *
 * Input: a text.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/reference_json.h"
#include "json/json_read.h"

#include <errno.h>
#include <json-c/json.h>

static const struct json_bounds bounds = {1000, 1 << 20};

static void check_same(struct json_object *ours, const struct reference *theirs);

static void check_object(struct json_object *ours, const struct reference *theirs)
{
	CHECK((size_t)json_object_object_length(ours) == reference_size(theirs));
	json_object_object_foreach (ours, name, value) {
		const struct reference *other = reference_member(theirs, name);

		CHECK(other);
		check_same(value, other);
	}
}

static void check_array(struct json_object *ours, const struct reference *theirs)
{
	CHECK(json_object_array_length(ours) == reference_size(theirs));
	for (size_t i = 0; i < reference_size(theirs); i++)
		check_same(json_object_array_get_idx(ours, i), reference_element(theirs, i));
}

static void check_scalar(struct json_object *ours, const struct reference *theirs)
{
	switch (json_object_get_type(ours)) {
	case json_type_boolean:
		CHECK(reference_boolean(theirs) == json_object_get_boolean(ours));
		break;
	case json_type_int:
		CHECK(reference_integer(theirs) == json_object_get_int64(ours));
		break;
	case json_type_double:
		CHECK(reference_real(theirs) == json_object_get_double(ours));
		break;
	case json_type_string:
		CHECK(text_equal((struct text){json_object_get_string(ours),
					 (size_t)json_object_get_string_len(ours)},
			reference_string(theirs)));
		break;
	default:
		break;
	}
}

static void check_same(struct json_object *ours, const struct reference *theirs)
{
	static const enum reference_type types[] = {
		[json_type_null] = REFERENCE_NULL,
		[json_type_boolean] = REFERENCE_BOOLEAN,
		[json_type_int] = REFERENCE_INTEGER,
		[json_type_double] = REFERENCE_REAL,
		[json_type_string] = REFERENCE_STRING,
		[json_type_array] = REFERENCE_ARRAY,
		[json_type_object] = REFERENCE_OBJECT,
	};
	enum json_type type = json_object_get_type(ours);

	CHECK(types[type] == reference_type(theirs));
	if (type == json_type_object)
		check_object(ours, theirs);
	else if (type == json_type_array)
		check_array(ours, theirs);
	else
		check_scalar(ours, theirs);
}

/* A value that is written out is read back as the same value. */
static void check_written(struct json_object *value)
{
	const char *written = json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN);
	struct json_object *again = NULL;
	struct json_report report;

	CHECK(written);
	CHECK(json_read(text_from(written), &bounds, &again, &report) == 0);
	CHECK(strcmp(json_object_to_json_string_ext(again, JSON_C_TO_STRING_PLAIN), written) == 0);
	json_object_put(again);
}

/* The text is read with exactly the memory that it needs, and refused with one byte less. */
static void check_memory(struct text text, size_t memory)
{
	struct json_bounds less = {bounds.values, memory};
	struct json_object *value = NULL;
	struct json_report report;

	CHECK(json_read(text, &less, &value, &report) == 0 && report.memory == memory);
	json_object_put(value);
	if (memory == 0)
		return;
	less.memory--;
	CHECK(json_read(text, &less, &value, &report) == -ENOBUFS && report.memory <= less.memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = fuzz_copy(fuzz_text(data, size));
	const struct text text = {copy, size};
	struct json_object *value = NULL;
	struct json_report report;
	bool overflow;
	int r = json_read(text, &bounds, &value, &report);
	struct reference *reference = reference_read(text, &overflow);

	/* jansson skips a NUL after a number; RFC 8259 allows no NUL anywhere. */
	if (text_has_nul(text)) {
		CHECK(r < 0);
		reference_free(reference);
		reference = NULL;
	}
	CHECK((r == 0) == !report.fault && report.at <= size);
	CHECK(report.memory <= bounds.memory);
	if (r == 0 && reference)
		check_same(value, reference);
	else if (r == 0)
		CHECK(overflow);
	else if (reference)
		CHECK(r == -EMSGSIZE || r == -ENOBUFS || strstr(report.fault, "nesting"));
	if (r == 0) {
		check_written(value);
		check_memory(text, report.memory);
	}
	reference_free(reference);
	json_object_put(value);
	free(copy);
	return 0;
}
