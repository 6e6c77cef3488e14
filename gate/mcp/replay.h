/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The events that a session of MCP keeps, so that a client whose stream broke off can get them
 * again (Last-Event-ID). A session has several streams; each event belongs to one. No input or
 * output.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#define REPLAY_NONCE_DIGITS 16
#define REPLAY_ID_BYTES     64

struct replay_event;

/* replay_init() before any other function. */
struct replay {
	TAILQ_HEAD(, replay_event) events; /* the oldest first */
	size_t bytes;
	uint64_t last;
	char nonce[REPLAY_NONCE_DIGITS + 1];
};

/** Prepares it, with a random number in the ids of its events. Returns 0 or -errno. */
int replay_init(struct replay *replay);
void replay_done(struct replay *replay);

/**
 * Keeps an event of @stream, whose event before it was @previous (0: none), and drops the oldest
 * ones to stay within @limit bytes; a longer event is not kept. Returns the event's number.
 */
uint64_t replay_add(struct replay *replay, uint64_t stream, uint64_t previous, struct text data,
	bool is_last, size_t limit);

/** Writes the id of an event. */
void replay_write_id(const struct replay *replay, uint64_t stream, uint64_t number,
	char ret_id[static REPLAY_ID_BYTES]);

/** Reads an id, which is hostile. Returns false if it is not of this session. */
bool replay_read_id(
	const struct replay *replay, struct text id, uint64_t *ret_stream, uint64_t *ret_number);

/**
 * Calls @each, unless that is NULL, for the events of @stream after @number, the oldest first.
 * Returns their bytes, or -ENOENT without any call if one of them is not kept. The stream's last
 * event so far is @last; 0: the stream has ended, and its last event is known only if it is kept.
 */
ssize_t replay_after(const struct replay *replay, uint64_t stream, uint64_t number, uint64_t last,
	void (*each)(void *context, uint64_t number, struct text data), void *context);
