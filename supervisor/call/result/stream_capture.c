// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/result/stream_capture.h"

#include "common/line_count.h"
#include "common/utf8.h"
#include "supervisor/base/json_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE_MIN 1024 /* the first allocation, or the cap if that is less */

void stream_capture_init(struct stream_capture *capture, size_t cap)
{
	*capture = (struct stream_capture){.half = cap > 2 ? cap / 2 + cap % 2 : 1};
}

/* Returns the size of the block that keeps @needed bytes. */
static size_t size_for(const struct stream_capture *capture, size_t needed)
{
	const size_t cap = 2 * capture->half;
	size_t size = capture->size > 0 ? capture->size : SIZE_MIN;

	if (needed <= capture->size)
		return capture->size;
	while (size < needed)
		size *= 2;
	return size < cap ? size : cap;
}

static int grow_capture(struct stream_capture *capture, size_t needed)
{
	size_t size = size_for(capture, needed);
	char *data;

	if (size == capture->size)
		return 0;
	data = realloc(capture->data, size);
	if (!data)
		return -ENOMEM;
	capture->data = data;
	capture->size = size;
	return 0;
}

/* Overwrites the oldest bytes of the tail. */
static void append_to_ring(struct stream_capture *capture, struct text text)
{
	char *ring = capture->data + capture->half;
	size_t to_end;

	if (text.len > capture->half) {
		/* The bytes before these would be overwritten by them. */
		text.data += text.len - capture->half;
		text.len = capture->half;
	}
	to_end = capture->half - capture->oldest;
	if (text.len < to_end) {
		memcpy(ring + capture->oldest, text.data, text.len);
		capture->oldest += text.len;
		return;
	}
	memcpy(ring + capture->oldest, text.data, to_end);
	memcpy(ring, text.data + to_end, text.len - to_end);
	capture->oldest = text.len - to_end;
}

int stream_capture_append(struct stream_capture *capture, struct text text)
{
	size_t room = 2 * capture->half - capture->len;
	size_t linear = text.len < room ? text.len : room;
	int result;

	if (text.len == 0)
		return 0;
	result = grow_capture(capture, capture->len + linear);
	if (result < 0)
		return result;
	capture->total += text.len;
	if (capture->count_lines)
		capture->lines += line_count(text.data, text.len);
	if (linear > 0)
		memcpy(capture->data + capture->len, text.data, linear);
	capture->len += linear;
	if (linear < text.len)
		append_to_ring(capture, (struct text){text.data + linear, text.len - linear});
	return 0;
}

size_t stream_capture_growth(const struct stream_capture *capture, size_t len)
{
	size_t room = 2 * capture->half - capture->len;

	return size_for(capture, capture->len + (len < room ? len : room)) - capture->size;
}

void stream_capture_limit(struct stream_capture *capture, size_t cap)
{
	size_t half = (cap > SIZE_MIN ? cap : SIZE_MIN) / 2;

	/* A full ring begins at its start now. */
	if (half < capture->size / 2)
		half = capture->size / 2;
	if (half < capture->half)
		capture->half = half;
}

void stream_capture_skip(struct stream_capture *capture, size_t len)
{
	capture->total += len;
}

struct stream_pieces stream_capture_pieces(const struct stream_capture *capture)
{
	const char *ring;

	if (!stream_capture_truncated(capture) || capture->len == 0)
		return (struct stream_pieces){.head = {capture->data, capture->len}};
	ring = capture->data + capture->half;
	return (struct stream_pieces){
		.head = {capture->data, capture->half},
		.tail[0] = {ring + capture->oldest, capture->half - capture->oldest},
		.tail[1] = {ring, capture->oldest},
	};
}

/*
 * Removes the rest of a cut character from the beginning of the tail. Continuation bytes without
 * their lead byte would only become U+FFFD.
 */
static size_t trim_tail(struct text tail[static 2])
{
	size_t trimmed = 0;

	for (size_t i = 0; i < 2; i++) {
		while (trimmed < UTF8_SEQUENCE_MAX - 1 && tail[i].len > 0 &&
			((unsigned char)tail[i].data[0] & 0xc0) == 0x80) {
			tail[i].data++;
			tail[i].len--;
			trimmed++;
		}
		if (tail[i].len > 0)
			break;
	}
	return trimmed;
}

void stream_capture_write_text(const struct stream_capture *capture, struct json_text *json)
{
	struct stream_pieces kept = stream_capture_pieces(capture);

	json_text_string_begin(json);
	if (stream_capture_truncated(capture)) {
		char mark[64];
		size_t cut = utf8_incomplete_tail(kept.head);
		uint64_t left_out = stream_capture_omitted(capture) + cut + trim_tail(kept.tail);
		int len = snprintf(
			mark, sizeof(mark), "\n[... %" PRIu64 " bytes left out ...]\n", left_out);

		kept.head.len -= cut;
		json_text_string_part(json, kept.head);
		json_text_string_part(json, (struct text){mark, (size_t)len});
		json_text_string_part(json, kept.tail[0]);
		json_text_string_part(json, kept.tail[1]);
	} else {
		json_text_string_part(json, kept.head);
	}
	json_text_string_end(json);
}

void stream_capture_write_base64(const struct stream_capture *capture, struct json_text *json)
{
	struct stream_pieces kept = stream_capture_pieces(capture);

	json_text_base64_begin(json);
	json_text_base64_part(json, kept.head);
	json_text_base64_part(json, kept.tail[0]);
	json_text_base64_part(json, kept.tail[1]);
	json_text_base64_end(json);
}

/* Copies @len of the kept bytes, from offset @from. */
static void copy_kept(const struct stream_pieces *kept, size_t from, size_t len, char *to)
{
	const struct text all[] = {kept->head, kept->tail[0], kept->tail[1]};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		size_t skip = from < all[i].len ? from : all[i].len;
		size_t n = all[i].len - skip < len ? all[i].len - skip : len;

		if (n > 0)
			memcpy(to, all[i].data + skip, n);
		from -= skip;
		to += n;
		len -= n;
	}
}

void stream_capture_shrink(struct stream_capture *capture, size_t cap)
{
	struct stream_pieces kept = stream_capture_pieces(capture);
	size_t half = cap / 2, len = 2 * half;
	char *data;

	if (len >= capture->len)
		return;
	data = len > 0 ? malloc(len) : NULL;
	if (data) {
		copy_kept(&kept, 0, half, data);
		copy_kept(&kept, capture->len - half, half, data + half);
	}
	free(capture->data);
	capture->data = data;
	capture->len = capture->size = data ? len : 0;
	capture->half = data ? half : 1;
	capture->oldest = 0;
}

void stream_capture_free(struct stream_capture *capture)
{
	const size_t half = capture->half;

	free(capture->data);
	*capture = (struct stream_capture){.half = half};
}
