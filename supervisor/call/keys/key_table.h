/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The keys of calls that cloisterd remembers: each one's state, found by its digest, and the oldest
 * of a tenant. For key_journal.c, which records them, and keys.c, which answers other calls with
 * them; no other file uses it.
 */

#include "supervisor/call/keys/key_result.h"
#include "supervisor/journal/journal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct call;
struct key_gate;

enum key_state {
	KEY_WAITING,   /* its call has not begun, and nothing is in the journal */
	KEY_RECORDING, /* the beginning is on its way into the journal */
	KEY_BEGUN,     /* it is recorded, and the end may be unknown */
	KEY_ENDED,     /* so is the result */
	KEY_UNKNOWN,   /* the result is lost: cloisterd ended, or could not write it */
	KEY_RESOLVING, /* another call finds out whether a file was changed */
	KEY_GONE,      /* forgotten */
	KEY_STATES,
};

enum key_event {
	KEY_BEGIN,   /* its call is about to begin */
	KEY_WRITTEN, /* the record is in the journal */
	KEY_FAILED,  /* it could not be written */
	KEY_END,     /* its call has ended with a result */
	KEY_LEAVE,   /* nothing of its call was begun */
	KEY_START,   /* cloisterd has read its journal */
	KEY_EXPIRE,  /* it is older than the horizon, or its client needs it no more */
	KEY_RESOLVE, /* another call with the key is to look */
	KEY_EVENTS,
};

/* The keys of one tenant, known by its name, because a reload replaces the tenant. */
struct key_tenant {
	LIST_ENTRY(key_tenant) link;
	size_t keys;
	size_t in_flight; /* keys whose result is to come */
	uint64_t bytes;   /* of their records */
	/* bytes of all its records in each file, obsolete ones included */
	uint64_t written[JOURNAL_FILES];
	size_t queued; /* bytes of records that are on their way */
	uint64_t horizon_ms;
	TAILQ_HEAD(, key) by_age; /* keys that can expire, the oldest first */
	char name[];
};

struct key {
	struct key *next; /* in its bucket */
	/* beside next, so that a look into a bucket touches one line of the cache for each key */
	uint8_t id[JOURNAL_ID_BYTES];
	struct keys *keys;
	struct key_tenant *tenant;
	TAILQ_ENTRY(key) age; /* if is_ageing */
	LIST_ENTRY(key) open; /* if is_open */
	struct call *call;    /* NULL once it is over */
	void (*recorded)(struct call *call, int error);
	/* of its command, while its beginning is being recorded; NULL: none */
	struct key_gate *gate;
	struct key_result held;    /* until it is written */
	uint64_t time_ms;          /* since the epoch: of its end, or else of its beginning */
	struct key_change *change; /* of files, until its end is known; NULL: none is known */
	struct journal_place place;
	unsigned writes; /* records that are on their way */
	size_t queued;   /* bytes of the results and of earlier records, for the tenant */
	uint8_t state;   /* enum key_state */
	bool is_ageing;
	bool is_open; /* its only record is of its beginning */
	bool failed;  /* the result could not be written */
	uint8_t digest[JOURNAL_ID_BYTES];
};

struct keys {
	struct journal *journal;
	struct key **buckets;
	size_t n_buckets; /* a power of two */
	uint64_t factors[2];
	LIST_HEAD(, key_tenant) tenants;
	size_t n_tenants;                     /* configured, whether they have had keys or not */
	LIST_HEAD(, key) open[JOURNAL_FILES]; /* by the file of their record */
	bool carrying;                        /* records of them are being written */
	LIST_HEAD(, key) gone; /* not in the table, but a record of it is being written */
	uint64_t live_bytes[JOURNAL_FILES]; /* of records that are needed */
	size_t ended[JOURNAL_FILES];        /* results that are needed */
	uint64_t end;                       /* of the current file, as far as is known */
	bool paused;                        /* the journal is given to another generation */
	struct keys_state state;
};

/** Returns an empty table, or NULL if memory, or the kernel's random numbers, are out. */
struct keys *key_table_new(void);

/** Frees the table with all keys. No record of one may be on its way. */
void key_table_free(struct keys *keys);

/** Returns the key whose digest is @id, or NULL. */
struct key *key_find(const struct keys *keys, const uint8_t id[JOURNAL_ID_BYTES]);

/** Returns the entry of the tenant called @name, created if necessary; NULL if memory is out. */
struct key_tenant *key_tenant_of(struct keys *keys, struct text name);

/**
 * Adds the key @id, KEY_WAITING, for a call whose arguments have the digest @digest. The tenant
 * must not have a key @id yet. Returns NULL if memory is out.
 */
struct key *key_add(struct keys *keys, struct text tenant_name, const uint8_t id[JOURNAL_ID_BYTES],
	const uint8_t digest[JOURNAL_ID_BYTES]);

/**
 * Applies @event to @key and returns the former state. A key that is then KEY_GONE is no longer
 * found; key_free_if_gone() frees it.
 */
enum key_state key_happen(struct key *key, enum key_event event);

/** Frees @key if it is KEY_GONE and no record of it is being written. */
void key_free_if_gone(struct key *key);

/** Forgets @key in any state: a record that was read at the start says so. */
void key_drop(struct key *key);

/** @call is the call of @key from now on; NULL: it is over. */
void key_set_call(struct key *key, struct call *call);

/** Its latest record is at @place now. Size 0: it has none. */
void key_set_place(struct key *key, struct journal_place place);

/** Makes @key the youngest key that can expire, or a key that cannot expire. */
void key_set_ageing(struct key *key, bool ageing);

/** Whether @key is older than the horizon of its tenant at @now (ms since the epoch). */
bool key_is_over(const struct key *key, uint64_t now);

/** Forgets @key, which is over. */
void key_expire(struct key *key);

/** Forgets the keys of @tenant, or of all tenants, that are over. */
void key_expire_oldest(struct key_tenant *tenant, uint64_t now);
void key_expire_all(struct keys *keys);
