/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The keys of calls (options.key) and the answers to calls with a key. A call with a key runs at
 * most once. key_table.c has the table of a key's life, keys.c the table of answers to other calls
 * with it, and the journal (key_journal.h) the records that must survive cloisterd.
 */

#include "common/text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/keys/key_result.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct call_request;
struct config;
struct journal_state;
struct key;
struct key_change;
struct keys;

/* The fate of a call with a key. */
enum key_answer {
	KEY_RUN,    /* it is the first one */
	KEY_JOIN,   /* it waits for the first one's answer */
	KEY_REPLAY, /* it is given the first one's result */
	KEY_REFUSE, /* nothing is run, for the reason given */
};

/** Takes the horizons of the tenants of @config. Keys of other tenants are forgotten in time. */
void keys_configure(struct keys *keys, const struct config *config);

/**
 * Decides the fate of @request, which has a key. Changes nothing but that keys beyond the horizon
 * are forgotten. @keys is NULL if there is no journal.
 */
enum key_answer keys_arrive(
	struct keys *keys, const struct call_request *request, struct refusal *ret_refusal);

/**
 * Reads the result for KEY_REPLAY; key_result_done() frees it. Returns 0, or -errno with the reason
 * in @ret_refusal.
 */
int keys_replay(struct keys *keys, const struct call_request *request, struct key_result *ret,
	struct refusal *ret_refusal);

/** For KEY_RUN: @call becomes the call of its key. Returns the key, or NULL if memory is out. */
struct key *keys_lead(struct keys *keys, const struct call_request *request, struct call *call);

/** Returns the call in flight with the key of @request, or NULL. */
struct call *keys_join(struct keys *keys, const struct call_request *request);

/**
 * Returns the change of the earlier call whose fate the call of @key must find out, borrowed; NULL:
 * there is none.
 */
const struct key_change *key_resolves(const struct key *key);

/** Counts whether the call of @key has found out that fate. */
void key_resolved(struct key *key, bool known);

/**
 * The client has the result of the call with the key @id and needs it no more: forgets the key,
 * unless the call is in flight. @keys may be NULL.
 */
void keys_forget(struct keys *keys, const uint8_t id[static 32]);

/**
 * For the hand-over to another generation of cloisterd. While they are paused, a call with a key
 * that is not in flight is refused: BUSY. keys_rest() then says when the journal is complete, and
 * keys_hold() leaves it so until they are not paused any more, or given away.
 * keys_relay() gives it away: see journal_relay(). keys_relayed() takes a record of the other
 * generation. @keys may be NULL.
 */
void keys_pause(struct keys *keys, bool paused);
bool keys_rest(const struct keys *keys);
void keys_hold(struct keys *keys);
void keys_relay(struct keys *keys, void (*relay)(void *context, struct text record), void *context);
void keys_relayed(struct keys *keys, struct text record);

/** Returns how many keys of the tenant called @name are remembered. */
size_t keys_of_tenant(const struct keys *keys, const char *name);

/** Stores the state of the keys and of the journal. Returns false if there are none. */
bool keys_look(struct keys *keys, struct keys_state *ret_keys, struct journal_state *ret_journal);
