/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The keys of calls (options.key): what is known of the call that had one. A call with a key runs
 * at most once. What must survive cloisterd is in the journal; the rest of a key's life, and what a
 * second call with it is answered, are two tables in keys.c.
 */

#include "common/text.h"
#include "supervisor/base/refusal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;
struct call_request;
struct config;
struct event_base;
struct journal_state;
struct key;
struct keys;

/* What becomes of a call with a key. */
enum key_answer {
	KEY_RUN,    /* it is the first one */
	KEY_JOIN,   /* it waits for the first one's answer */
	KEY_REPLAY, /* it is given the first one's result */
	KEY_REFUSE, /* nothing is run, for the reason given */
};

/* The result of a call in the two forms that are kept, borrowed from buffer. */
struct key_result {
	struct text json;  /* the observation */
	struct text model; /* the same for a model, as a string of JSON; empty: not kept */
	enum tool_error error;
	bool base64;
	char *buffer; /* malloc'ed, or NULL */
};

/* Numbers since cloisterd started, and the present ones. */
struct keys_state {
	uint64_t keys, replayed, joined, conflicts, unknown;
};

/**
 * Opens the journal in @directory_fd and learns its keys. Call it before lock-down. Returns 0 or
 * -errno.
 */
int keys_open(int directory_fd, bool durable, struct keys **ret);

/** Takes the horizons of the tenants of @config. Keys of other tenants are forgotten in time. */
void keys_configure(struct keys *keys, const struct config *config);

/** Starts the journal's thread, if there is one, after lock-down. Returns 0 or -errno. */
int keys_start(struct keys *keys, struct event_base *base);

/** Call it when no call is left. NULL is allowed. */
void keys_free(struct keys *keys);

/**
 * Says what becomes of @request, which has a key. Changes nothing but that keys beyond the horizon
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
void key_result_done(struct key_result *result);

/** For KEY_RUN: @call becomes the call of its key. Returns the key, or NULL if memory is out. */
struct key *keys_lead(struct keys *keys, const struct call_request *request, struct call *call);

/** Returns the call in flight with the key of @request, or NULL. */
struct call *keys_join(struct keys *keys, const struct call_request *request);

/**
 * Records that the call of @key begins. @recorded is called once with 0 or -errno, perhaps before
 * this returns, unless key_leave() is called first.
 */
void key_begin(struct key *key, void (*recorded)(struct call *call, int error));

/** Records the result of the call of @key, which has begun. */
void key_end(struct key *key, const struct key_result *result);

/** The result of the call of @key, which has begun, cannot be kept. */
void key_lose(struct key *key);

/** Forgets @key: nothing of its call was begun. */
void key_leave(struct key *key);

/** Returns how many keys of the tenant called @name are remembered. */
size_t keys_of_tenant(const struct keys *keys, const char *name);

/** Stores the state of the keys and of the journal. Returns false if there are none. */
bool keys_look(struct keys *keys, struct keys_state *ret_keys, struct journal_state *ret_journal);
