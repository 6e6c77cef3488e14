/* links: cloister-gate-core */
// SPDX-License-Identifier: Apache-2.0
/*
 * A body of multipart/form-data. Cutting it into other pieces changes nothing. Each part begins
 * once, ends at most once and before the next one, and has no delimiter in it; all content lies in
 * the body, in order. A body without its last byte has no more parts that ended.
 *
 * Input: a line with the Content-Type, the size of pieces as a byte, and the body.
 */
#include "gate/multipart.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>

/* What was told: kinds of events, and all data. */
struct record {
	char *bytes;
	size_t len, ended;
	bool is_open;
};

static void note(struct record *record, const void *bytes, size_t len)
{
	record->bytes = realloc(record->bytes, record->len + len + 1);
	memcpy(record->bytes + record->len, bytes, len);
	record->len += len;
}

static void note_name(struct record *record, const char *name)
{
	note(record, name ? "+" : "-", 1);
	if (name)
		note(record, name, strlen(name) + 1);
}

static void on_begin(void *context, const char *name, const char *filename)
{
	struct record *record = context;

	CHECK(!record->is_open);
	record->is_open = true;
	note(record, "\nB", 2);
	note_name(record, name);
	note_name(record, filename);
	note(record, "=", 1);
}

static void on_data(void *context, struct text data)
{
	struct record *record = context;

	CHECK(record->is_open && data.len > 0);
	note(record, data.data, data.len);
}

static void on_end(void *context)
{
	struct record *record = context;

	CHECK(record->is_open);
	record->is_open = false;
	record->ended++;
	note(record, "\nE", 2);
}

static int take(const char *type, struct text body, size_t piece, struct record *ret)
{
	static const struct multipart_events events = {on_begin, on_data, on_end};
	struct multipart *multipart;
	int r = multipart_new(type, &events, ret, &multipart);

	CHECK(r == 0 || r == -EINVAL);
	if (r < 0)
		return r;
	while (r == 0 && body.len > 0) {
		struct text next = {body.data, body.len < piece ? body.len : piece};
		char *copy = fuzz_copy(next);

		r = multipart_take(multipart, (struct text){copy, next.len});
		free(copy);
		body.data += next.len;
		body.len -= next.len;
	}
	CHECK(r == 0 || r == -EBADMSG);
	if (r == 0)
		r = multipart_is_whole(multipart);
	CHECK(r <= 0 || !ret->is_open);
	multipart_free(multipart);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size), line = text_take(&rest, '\n');
	size_t piece = fuzz_byte(&rest) + 1U;
	struct record whole = {0}, pieces = {0}, cut = {0};
	char *type;
	int r;

	if (text_has_nul(line))
		return 0;
	type = strndup(line.data ? line.data : "", line.len);
	r = take(type, rest, rest.len + 1, &whole);
	CHECK(take(type, rest, piece, &pieces) == r);
	CHECK(whole.ended == pieces.ended && whole.is_open == pieces.is_open);
	if (r >= 0)
		CHECK(whole.len == pieces.len &&
			(whole.len == 0 || memcmp(whole.bytes, pieces.bytes, whole.len) == 0));
	CHECK(whole.len <= 8 * size + 8);
	if (rest.len > 0) {
		(void)take(type, (struct text){rest.data, rest.len - 1}, piece, &cut);
		CHECK(cut.ended <= whole.ended && cut.len <= whole.len);
	}
	free(type);
	free(whole.bytes);
	free(pieces.bytes);
	free(cut.bytes);
	return 0;
}
