/* links: cloister-gate-core */
/* SPDX-License-Identifier: Apache-2.0 */

#include "gate/mcp/replay.h"
#include "tests/lib/unit.h"

#include <errno.h>

#define LIMIT 1024

/* What replay_after() gave. */
struct got {
	char text[256];
	uint64_t last;
};

static void on_event(void *context, uint64_t number, struct text data)
{
	struct got *got = context;
	size_t len = strlen(got->text);

	snprintf(got->text + len, sizeof(got->text) - len, "%.*s;", (int)data.len, data.data);
	got->last = number;
}

static uint64_t add(struct replay *replay, uint64_t stream, uint64_t previous, const char *text)
{
	return replay_add(replay, stream, previous, text_from(text), false, LIMIT);
}

TEST(test_a_stream_gets_only_its_own_events)
{
	struct replay replay;
	struct got got = {0};
	uint64_t a, b, c;

	assert_true(replay_init(&replay) == 0);
	a = add(&replay, 1, 0, "a");
	b = add(&replay, 2, 0, "of another");
	c = add(&replay, 1, a, "c");
	assert_true(replay_after(&replay, 1, a, c, on_event, &got) > 0);
	assert_true(strcmp(got.text, "c;") == 0);
	assert_true(got.last == c);
	assert_true(replay_after(&replay, 2, b, b, on_event, &got) == 0);
	/* An event of another stream is none of this one's. */
	assert_true(replay_after(&replay, 1, b, c, on_event, &got) == -ENOENT);
	assert_true(strcmp(got.text, "c;") == 0);
	replay_done(&replay);
}

TEST(test_a_stream_with_a_gap_is_not_replayed)
{
	char wide[LIMIT / 2];
	struct replay replay;
	struct got got = {0};
	uint64_t first, last;

	memset(wide, 'x', sizeof(wide));
	assert_true(replay_init(&replay) == 0);
	first = last = add(&replay, 1, 0, "first");
	for (int i = 0; i < 3; i++) {
		last = replay_add(
			&replay, 1, last, (struct text){wide, sizeof(wide)}, i == 2, LIMIT);
		assert_true(replay.bytes <= LIMIT);
	}
	assert_true(replay_after(&replay, 1, first, last, on_event, &got) == -ENOENT);
	assert_true(replay_after(&replay, 1, first, 0, on_event, &got) == -ENOENT);
	assert_true(replay_after(&replay, 1, last - 1, 0, NULL, NULL) > (ssize_t)sizeof(wide));
	assert_true(replay_after(&replay, 1, last, 0, NULL, NULL) == 0);
	assert_true(strcmp(got.text, "") == 0);
	/* A longer one than all that is kept. */
	last = replay_add(&replay, 1, last, (struct text){wide, sizeof(wide)}, false, 100);
	assert_true(replay.bytes == 0);
	assert_true(replay_after(&replay, 1, last - 1, last, NULL, NULL) == -ENOENT);
	replay_done(&replay);
}

TEST(test_an_end_that_is_not_kept_is_no_end)
{
	struct replay replay;
	uint64_t last;

	assert_true(replay_init(&replay) == 0);
	last = add(&replay, 1, 0, "and more was to come");
	assert_true(replay_after(&replay, 1, last, 0, NULL, NULL) == -ENOENT);
	assert_true(replay_after(&replay, 7, last, 0, NULL, NULL) == -ENOENT);
	replay_done(&replay);
}

TEST(test_ids)
{
	struct replay replay, other;
	char id[REPLAY_ID_BYTES], edited[2 * REPLAY_ID_BYTES];
	uint64_t stream, number, event;

	assert_true(replay_init(&replay) == 0 && replay_init(&other) == 0);
	event = add(&replay, 3, 0, "a");
	add(&other, 3, 0, "a");
	replay_write_id(&replay, 3, event, id);
	assert_true(replay_read_id(&replay, text_from(id), &stream, &number));
	assert_true(stream == 3 && number == event);
	assert_true(!replay_read_id(&other, text_from(id), &stream, &number));
	for (size_t i = 0; i < strlen(id); i++) {
		assert_true(!replay_read_id(&replay, (struct text){id, i}, &stream, &number));
		snprintf(edited, sizeof(edited), "%s", id);
		edited[i] ^= 1;
		/* Another stream is an id too, of which there is no event. */
		assert_true(!replay_read_id(&replay, text_from(edited), &stream, &number) ||
			    stream != 3 || number == 0);
	}
	for (const char *const *tail = (const char *const[]){"0", "-", "-1", " ", "a", NULL}; *tail;
		tail++) {
		snprintf(edited, sizeof(edited), "%s%s", id, *tail);
		assert_true(!replay_read_id(&replay, text_from(edited), &stream, &number));
	}
	replay_done(&replay);
	replay_done(&other);
}
