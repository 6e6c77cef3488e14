/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes records of calls with a key to the journal, and reads them when cloisterd starts, so that
 * such a call runs at most once, whenever cloisterd ends.
 */

#include "common/text.h"

#include <stdbool.h>

struct call;
struct event_base;
struct key;
struct key_gate;
struct key_result;
struct keys;

/**
 * Opens the journal in @directory_fd and learns its keys. Call it before lock-down. Returns 0 or
 * -errno.
 */
int keys_open(int directory_fd, bool durable, struct keys **ret);

/** Starts the journal's thread, after lock-down. Returns 0 or -errno. */
int keys_start(struct keys *keys, struct event_base *base);

/** Call it when no call is left. NULL is allowed. */
void keys_free(struct keys *keys);

/**
 * Sets the versions of the files that the call of @key changes (key_change.h), before key_begin().
 * Returns 0, -ENOMEM, or -EMSGSIZE.
 */
int key_set_change(struct key *key, struct text before, struct text after);

/**
 * Records that the call of @key begins. @recorded is called once with 0 or -errno, perhaps before
 * this returns, unless key_leave() is called first. Takes @gate, at which the call's command waits;
 * NULL: there is none.
 */
void key_begin(
	struct key *key, struct key_gate *gate, void (*recorded)(struct call *call, int error));

/**
 * Shuts the gate of @key. If its call's beginning has been recorded, @recorded has been called when
 * this returns; otherwise the command will never begin.
 */
void key_shut_gate(struct key *key);

/** Whether records are written by a thread, so that a call has to wait for them. */
bool keys_are_apart(const struct keys *keys);

/** Records the result of the call of @key, which has begun. */
void key_end(struct key *key, const struct key_result *result);

/** The result of the call of @key, which has begun, cannot be kept. */
void key_lose(struct key *key);

/** Forgets @key: nothing of its call was begun. */
void key_leave(struct key *key);

/** Empties the file of the journal that is not written to and continues there, if that is worth it.
 */
void keys_turn_if_worth(struct keys *keys);

/** Forgets @key, whose call has ended, before it is over. */
void key_forget(struct key *key);
