/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

/* What a background command is made of and needs no process: the log of its output, the search in
 * it, and input that is taken once. */

#include "supervisor/session/input_once.h"
#include "supervisor/session/output_ring.h"
#include "supervisor/session/until.h"
#include "tests/lib/unit.h"

/* The log */

/* Writes the bytes from @cursor on, at most @max at once: each run of a stream with its cursor, and
 * a bar where one is in two pieces. */
static void show(
	const struct output_ring *ring, uint64_t cursor, size_t max, char *out, size_t size)
{
	struct output_piece piece;
	unsigned stream = 2;
	size_t len = 0;

	out[0] = '\0';
	while (output_ring_piece(ring, cursor, max, &piece)) {
		assert_int_equal(piece.at, cursor);
		assert_in_range(piece.data.len, 1, max);
		if (piece.stream == stream)
			len += (size_t)snprintf(out + len, size - len, "|");
		else
			len += (size_t)snprintf(out + len, size - len, " %llu%c",
				(unsigned long long)piece.at, piece.stream ? 'e' : 'o');
		len += (size_t)snprintf(
			out + len, size - len, "%.*s", (int)piece.data.len, piece.data.data);
		assert_true(len < size);
		stream = piece.stream;
		cursor += piece.data.len;
	}
	assert_int_equal(cursor, ring->end);
}

static void append(struct output_ring *ring, unsigned stream, const char *string)
{
	output_ring_append(ring, stream, text_from(string));
}

TEST(test_streams_are_one_log)
{
	struct output_ring ring;
	struct output_piece piece;
	char shown[256];

	output_ring_init(&ring, 64);
	assert_false(output_ring_piece(&ring, 0, 1, &piece));
	append(&ring, 0, "one");
	append(&ring, 1, "two");
	append(&ring, 0, "");
	append(&ring, 1, "three");
	append(&ring, 0, "four");
	show(&ring, 0, SIZE_MAX, shown, sizeof(shown));
	assert_string_equal(shown, " 0oone 3etwothree 11ofour");
	show(&ring, 4, 3, shown, sizeof(shown));
	assert_string_equal(shown, " 4ewot|hre|e 11ofou|r");
	assert_false(output_ring_piece(&ring, 15, 1, &piece));
	assert_false(output_ring_piece(&ring, UINT64_MAX, 1, &piece));
	assert_int_equal(output_ring_lost(&ring, 0), 0);
	output_ring_free(&ring);
}

TEST(test_the_oldest_bytes_are_lost_and_counted)
{
	static const struct {
		const char *first, *then;
		uint64_t lost;
		const char *kept;
	} rows[] = {
		{"0123456789abcdef", "", 0, " 0o0123456789abcdef"},
		{"0123456789abcdef", "x", 1, " 1o123456789abcdef 16ex"},
		{"0123456789abcdef", "0123456789abcde", 15, " 15of 16e0123456789abcde"},
		{"0123456789abcdef", "0123456789abcdef", 16, " 16e0123456789abcdef"},
		{"0123", "0123456789abcdefgh", 6, " 6e23456789ab|cdefgh"},
		{"", "0123456789abcdef0123456789abcdefXY", 18, " 18e23456789abcdef|XY"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct output_ring ring;
		struct output_piece piece;
		char shown[256];

		output_ring_init(&ring, 16);
		append(&ring, 0, rows[i].first);
		append(&ring, 1, rows[i].then);
		assert_int_equal(ring.start, rows[i].lost);
		assert_int_equal(output_ring_lost(&ring, 0), rows[i].lost);
		assert_int_equal(output_ring_lost(&ring, ring.start + 1), 0);
		if (rows[i].lost > 0)
			assert_false(output_ring_piece(&ring, rows[i].lost - 1, 1, &piece));
		show(&ring, ring.start, SIZE_MAX, shown, sizeof(shown));
		assert_string_equal(shown, rows[i].kept);
		output_ring_free(&ring);
	}
}

/* A model of the log that keeps everything, and output of any bytes, lengths and streams. */
TEST(test_any_output)
{
	enum { TOTAL = 400000 };
	static const size_t caps[] = {1, 8, 1000, 4096, 4097, 65536, 1 << 20};
	char *bytes = malloc(TOTAL), *streams = malloc(TOTAL);

	srandom(1);
	for (size_t i = 0; i < ARRAY_SIZE(caps); i++) {
		struct output_ring ring;
		size_t total = 0, cap = caps[i] < 8 ? 8 : (caps[i] + 7) / 8 * 8;

		output_ring_init(&ring, caps[i]);
		while (total < TOTAL) {
			size_t len = (size_t)random() % (random() % 8 == 0 ? 70000 : 20);
			unsigned stream = random() & 1;
			struct output_piece piece;
			uint64_t at;

			if (len > TOTAL - total)
				len = TOTAL - total;
			for (size_t j = 0; j < len; j++)
				bytes[total + j] = (char)random();
			memset(streams + total, (int)stream, len);
			output_ring_append(&ring, stream, (struct text){bytes + total, len});
			total += len;
			assert_int_equal(ring.end, total);
			assert_true(ring.end - ring.start <= cap);
			assert_true(ring.size <= cap);
			/* Nothing is lost before the cap is reached. */
			assert_int_equal(ring.start, total > cap ? total - cap : 0);
			if (random() % 16 != 0 && total < TOTAL)
				continue;
			for (at = ring.start; output_ring_piece(&ring, at, SIZE_MAX, &piece);
				at += piece.data.len) {
				assert_memory_equal(piece.data.data, bytes + at, piece.data.len);
				for (size_t j = 0; j < piece.data.len; j++)
					assert_int_equal(piece.stream, streams[at + j]);
			}
			assert_int_equal(at, ring.end);
		}
		output_ring_free(&ring);
	}
	free(bytes);
	free(streams);
}

TEST(test_an_idle_log_is_small)
{
	struct output_ring ring;

	output_ring_init(&ring, 1 << 20);
	assert_int_equal(ring.size, 0);
	append(&ring, 0, "$ ");
	assert_true(ring.size <= 4096);
	output_ring_free(&ring);
}

/* The search */

TEST(test_bytes_are_found)
{
	static const struct {
		const char *bytes;
		const char *output[6]; /* "o" or "e", then the text */
		int met;               /* the index of the part that completes them; -1: none */
	} rows[] = {
		{"a", {"oa"}, 0},
		{"a", {"ob", "ec", "oda"}, 2},
		{"listening on", {"olisten", "oing", "o on port"}, 2},
		{"listening on", {"olisten", "enoise", "oing on"}, 2},
		{"listening on", {"olisten", "eing on"}, -1},
		{"aab", {"oaaaaaaa", "ob"}, 1},
		{"abababc", {"oabababab", "oabc"}, 1},
		{"abababc", {"oababab", "eababab", "oabc", "eabd"}, 2},
		{"aabaabaaa", {"oaabaabaabaabaa", "oa"}, 1},
		{"ready\n", {"oread", "oy", "o\r", "oready", "o\n"}, 4},
		{"x", {"oy", "e"}, -1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct until until;
		int met = -1;

		until_contains(&until, text_from(rows[i].bytes));
		for (int j = 0; met < 0 && j < 6 && rows[i].output[j]; j++)
			if (until_feed(&until, rows[i].output[j][0] == 'e',
				    text_from(rows[i].output[j] + 1)))
				met = j;
		if (met != rows[i].met)
			fail_msg("row %zu: %d", i, met);
	}
}

/* Against memmem(3), with few letters, so that there are many beginnings. */
TEST(test_any_search)
{
	srandom(2);
	for (int round = 0; round < 2000; round++) {
		char bytes[8], output[200];
		size_t n = 1 + (size_t)random() % sizeof(bytes), at = 0;
		struct until until;
		const char *found;
		bool met = false;

		for (size_t i = 0; i < n; i++)
			bytes[i] = (char)(random() % 2);
		for (size_t i = 0; i < sizeof(output); i++)
			output[i] = (char)(random() % 2);
		until_contains(&until, (struct text){bytes, n});
		found = memmem(output, sizeof(output), bytes, n);
		while (!met && at < sizeof(output)) {
			size_t len = 1 + (size_t)random() % 5;

			if (len > sizeof(output) - at)
				len = sizeof(output) - at;
			met = until_feed(&until, 0, (struct text){output + at, len});
			at += len;
		}
		assert_int_equal(met, found != NULL);
		if (found)
			assert_in_range(
				at, (size_t)(found - output) + n, (size_t)(found - output) + n + 5);
	}
}

TEST(test_other_conditions_find_nothing)
{
	struct until until = {.kind = UNTIL_EXIT};

	assert_false(until_feed(&until, 0, TEXT_LITERAL("anything")));
}

/* Input */

TEST(test_input_is_taken_once)
{
	static const struct {
		uint64_t taken, at;
		size_t len, room;
		int r;
		struct input_once once;
	} rows[] = {
		{0, 0, 5, 100, 0, {0, 5, true}},
		{0, 0, 0, 100, 0, {0, 0, true}},
		{0, 0, 0, 0, 0, {0, 0, true}},
		{0, 0, 5, 5, 0, {0, 5, true}},
		{0, 0, 5, 4, 0, {0, 4, false}},
		{0, 0, 5, 0, -EAGAIN, {0}},
		{5, 0, 5, 100, 0, {5, 0, true}},
		{5, 0, 5, 0, 0, {5, 0, true}},
		{5, 0, 3, 0, 0, {3, 0, true}},
		{5, 3, 4, 100, 0, {2, 2, true}},
		{5, 3, 4, 1, 0, {2, 1, false}},
		{5, 3, 4, 0, -EAGAIN, {0}},
		{5, 5, 1, 1, 0, {0, 1, true}},
		{5, 6, 1, 100, -ERANGE, {0}},
		{5, 6, 0, 100, -ERANGE, {0}},
		{0, UINT64_MAX, 1, 1, -ERANGE, {0}},
		{UINT64_MAX, 0, 7, 1, 0, {7, 0, true}},
		{UINT64_MAX, UINT64_MAX - 3, 7, 9, 0, {3, 4, true}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct input_once once = {0};
		int r = input_once(rows[i].taken, rows[i].at, rows[i].len, rows[i].room, &once);

		if (r != rows[i].r || once.skip != rows[i].once.skip ||
			once.take != rows[i].once.take || once.whole != rows[i].once.whole)
			fail_msg("row %zu: %d, %zu %zu %d", i, r, once.skip, once.take, once.whole);
	}
}
