/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The keys that are valid now, as the file of keys has them; it is read again when it changes. */

#include "common/text.h"

#include <stdbool.h>

struct gate;
struct gate_key;
struct gate_keys;

/**
 * Reads the file at @path, and calls @changed whenever keys may have become invalid. A file that is
 * missing or malformed has no keys. Returns 0 or -errno.
 */
int gate_keys_open(struct gate *gate, const char *path, void (*changed)(struct gate *gate),
	struct gate_keys **ret);

/** Returns the valid key whose text is @text, borrowed until the file changes; NULL if none is. */
const struct gate_key *gate_keys_check(const struct gate_keys *keys, struct text text);

/**
 * Reads the configuration's file of an authorization server's keys, if it names one. Returns 0, or
 * -errno with a sentence in @ret_fault; the keys that were read before stay then.
 */
int gate_keys_read_issuer(struct gate_keys *keys, const char **ret_fault);

/**
 * Verifies the JSON Web Token @text. Returns true with a key in its place: its id is the same for
 * all tokens of a tenant's subject.
 */
bool gate_keys_check_token(struct gate_keys *keys, struct text text, struct gate_key *ret_key);

/** Whether a copy of a key is valid still; a token is until it expires or its signer is removed. */
bool gate_keys_allow(struct gate_keys *keys, const struct gate_key *key);

/** The same for a session, which outlives a token: its client comes with the next one. */
bool gate_keys_allow_session(const struct gate_keys *keys, const struct gate_key *key);

/** Returns the valid key with this id, borrowed until the file changes; NULL: there is none. */
const struct gate_key *gate_keys_find(const struct gate_keys *keys, const char *id);

/** Whether there are keys of more than one tenant. */
bool gate_keys_are_shared(const struct gate_keys *keys);

/** Returns the key at @index, valid or expired, in the order of their ids; NULL behind the last. */
const struct gate_key *gate_keys_at(const struct gate_keys *keys, size_t index);
