// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-gate. The events are a tenant's; the ids that clients send are hostile. An id is
 * NONCE-STREAM-NUMBER. The nonce is random and each session's own, so that no id of a session is
 * one of another.
 */
#include "gate/mcp/replay.h"

#include "common/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct replay_event {
	TAILQ_ENTRY(replay_event) entry;
	uint64_t stream, number;
	uint64_t previous; /* the number of the stream's event before this one; 0: none */
	bool is_last;
	size_t len;
	char data[];
};

int replay_init(struct replay *replay)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	*replay = (struct replay){.last = 0};
	TAILQ_INIT(&replay->events);
	snprintf(replay->nonce, sizeof(replay->nonce), "%016" PRIx64, random);
	return 0;
}

static size_t cost(size_t len)
{
	return sizeof(struct replay_event) + len;
}

static void drop_oldest(struct replay *replay)
{
	struct replay_event *event = TAILQ_FIRST(&replay->events);

	TAILQ_REMOVE(&replay->events, event, entry);
	replay->bytes -= cost(event->len);
	free(event);
}

void replay_done(struct replay *replay)
{
	while (!TAILQ_EMPTY(&replay->events))
		drop_oldest(replay);
}

uint64_t replay_add(struct replay *replay, uint64_t stream, uint64_t previous, struct text data,
	bool is_last, size_t limit)
{
	uint64_t number = ++replay->last;
	struct replay_event *event;

	while (replay->bytes > 0 && replay->bytes + cost(data.len) > limit)
		drop_oldest(replay);
	event = cost(data.len) <= limit ? malloc(cost(data.len)) : NULL;
	if (!event)
		return number;
	*event = (struct replay_event){.stream = stream,
		.number = number,
		.previous = previous,
		.is_last = is_last,
		.len = data.len};
	if (data.len > 0)
		memcpy(event->data, data.data, data.len);
	replay->bytes += cost(data.len);
	TAILQ_INSERT_TAIL(&replay->events, event, entry);
	return number;
}

void replay_write_id(const struct replay *replay, uint64_t stream, uint64_t number,
	char ret_id[static REPLAY_ID_BYTES])
{
	snprintf(ret_id, REPLAY_ID_BYTES, "%s-%" PRIu64 "-%" PRIu64, replay->nonce, stream, number);
}

/* Takes a number of at most 18 digits, as it is written: no sign, space or leading zero. */
static bool take_number(struct text *rest, uint64_t *ret)
{
	struct text digits = text_take(rest, '-');

	*ret = 0;
	if (digits.len == 0 || digits.len > 18 || (digits.len > 1 && digits.data[0] == '0'))
		return false;
	for (size_t i = 0; i < digits.len; i++) {
		if (digits.data[i] < '0' || digits.data[i] > '9')
			return false;
		*ret = *ret * 10 + (uint64_t)(digits.data[i] - '0');
	}
	return true;
}

bool replay_read_id(
	const struct replay *replay, struct text id, uint64_t *ret_stream, uint64_t *ret_number)
{
	char again[REPLAY_ID_BYTES];
	struct text rest = id, nonce = text_take(&rest, '-');
	uint64_t stream, number;

	if (nonce.len != REPLAY_NONCE_DIGITS ||
		!memeql_sec(nonce.data, replay->nonce, REPLAY_NONCE_DIGITS) ||
		!take_number(&rest, &stream) || !take_number(&rest, &number) ||
		number > replay->last)
		return false;
	/* Nothing comes behind the numbers. */
	replay_write_id(replay, stream, number, again);
	if (strlen(again) != id.len || memcmp(again, id.data, id.len) != 0)
		return false;
	*ret_stream = stream;
	*ret_number = number;
	return true;
}

ssize_t replay_after(const struct replay *replay, uint64_t stream, uint64_t number, uint64_t last,
	void (*each)(void *context, uint64_t number, struct text data), void *context)
{
	const struct replay_event *event;
	uint64_t reached = number;
	bool has_ended = false;
	size_t bytes = 0;

	TAILQ_FOREACH (event, &replay->events, entry) {
		if (event->stream != stream || event->number < number)
			continue;
		has_ended |= event->is_last;
		if (event->number == number)
			continue;
		if (event->previous != reached)
			return -ENOENT;
		reached = event->number;
		bytes += cost(event->len);
	}
	if (last > 0 ? reached != last : !has_ended)
		return -ENOENT;
	TAILQ_FOREACH (event, &replay->events, entry)
		if (each && event->stream == stream && event->number > number)
			each(context, event->number, (struct text){event->data, event->len});
	return (ssize_t)bytes;
}
