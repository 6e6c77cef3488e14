// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Clients choose the keys; what is stored is a digest, in a hash table whose
 * order they cannot know. Nothing here reads or writes a file.
 */
#include "supervisor/call/keys/key_table.h"

#include "common/cleanup.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/call/keys/key_gate.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKETS_FIRST 1024

#define NEVER KEY_STATES /* an event that cannot come in a state */

/* clang-format off */
static const enum key_state next[KEY_STATES][KEY_EVENTS] = {
	[KEY_WAITING] = {
		[KEY_BEGIN] = KEY_RECORDING, [KEY_WRITTEN] = NEVER, [KEY_FAILED] = NEVER, [KEY_END] = NEVER,
		[KEY_LEAVE] = KEY_GONE, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER, [KEY_RESOLVE] = NEVER},
	[KEY_RECORDING] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_BEGUN, [KEY_FAILED] = KEY_WAITING, [KEY_END] = NEVER,
		[KEY_LEAVE] = KEY_GONE, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER, [KEY_RESOLVE] = NEVER},
	[KEY_BEGUN] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_BEGUN, [KEY_FAILED] = KEY_BEGUN, [KEY_END] = KEY_ENDED,
		[KEY_LEAVE] = KEY_GONE, [KEY_START] = KEY_UNKNOWN, [KEY_EXPIRE] = NEVER, [KEY_RESOLVE] = NEVER},
	[KEY_ENDED] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_ENDED, [KEY_FAILED] = KEY_UNKNOWN, [KEY_END] = NEVER,
		[KEY_LEAVE] = NEVER, [KEY_START] = KEY_ENDED, [KEY_EXPIRE] = KEY_GONE, [KEY_RESOLVE] = NEVER},
	[KEY_UNKNOWN] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_UNKNOWN, [KEY_FAILED] = KEY_UNKNOWN, [KEY_END] = NEVER,
		[KEY_LEAVE] = NEVER, [KEY_START] = KEY_UNKNOWN, [KEY_EXPIRE] = KEY_GONE, [KEY_RESOLVE] = KEY_RESOLVING},
	[KEY_RESOLVING] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_RESOLVING, [KEY_FAILED] = KEY_RESOLVING, [KEY_END] = KEY_ENDED,
		[KEY_LEAVE] = KEY_UNKNOWN, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER, [KEY_RESOLVE] = NEVER},
	[KEY_GONE] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_GONE, [KEY_FAILED] = KEY_GONE, [KEY_END] = NEVER,
		[KEY_LEAVE] = NEVER, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER, [KEY_RESOLVE] = NEVER},
};
/* clang-format on */

static struct key **bucket_of(const struct keys *keys, const uint8_t id[JOURNAL_ID_BYTES])
{
	uint64_t words[2];

	memcpy(words, id, sizeof(words));
	/* Multiplied by secret odd numbers: a client cannot choose keys that share a bucket. */
	return &keys->buckets[((words[0] * keys->factors[0] + words[1] * keys->factors[1]) >> 32) &
			      (keys->n_buckets - 1)];
}

struct key *key_find(const struct keys *keys, const uint8_t id[JOURNAL_ID_BYTES])
{
	struct key *key = *bucket_of(keys, id);

	while (key && memcmp(key->id, id, JOURNAL_ID_BYTES) != 0)
		key = key->next;
	return key;
}

static void grow_key_table(struct keys *keys)
{
	size_t n = keys->n_buckets;
	struct key **old = keys->buckets, **larger = calloc(2 * n, sizeof(struct key *));

	if (!larger) /* the chains become longer instead */
		return;
	keys->buckets = larger;
	keys->n_buckets = 2 * n;
	for (size_t i = 0; i < n; i++)
		while (old[i]) {
			struct key *key = old[i], **bucket = bucket_of(keys, key->id);

			old[i] = key->next;
			key->next = *bucket;
			*bucket = key;
		}
	free(old);
}

struct key_tenant *key_tenant_of(struct keys *keys, struct text name)
{
	struct key_tenant *tenant;

	LIST_FOREACH (tenant, &keys->tenants, link)
		if (text_equal(name, text_from(tenant->name)))
			return tenant;
	tenant = calloc(1, sizeof(*tenant) + name.len + 1);
	if (!tenant)
		return NULL;
	memcpy(tenant->name, name.data, name.len);
	TAILQ_INIT(&tenant->by_age);
	LIST_INSERT_HEAD(&keys->tenants, tenant, link);
	return tenant;
}

struct key *key_add(struct keys *keys, struct text tenant_name, const uint8_t id[JOURNAL_ID_BYTES],
	const uint8_t digest[JOURNAL_ID_BYTES])
{
	struct key_tenant *tenant = key_tenant_of(keys, tenant_name);
	struct key *key = tenant ? calloc(1, sizeof(*key)) : NULL, **bucket;

	if (!key)
		return NULL;
	if (keys->state.keys >= keys->n_buckets)
		grow_key_table(keys);
	key->keys = keys;
	key->tenant = tenant;
	memcpy(key->id, id, JOURNAL_ID_BYTES);
	memcpy(key->digest, digest, JOURNAL_ID_BYTES);
	bucket = bucket_of(keys, id);
	key->next = *bucket;
	*bucket = key;
	tenant->keys++;
	keys->state.keys++;
	return key;
}

/* Which of the files its record is in, and what that means for when the file can be emptied. */

static void set_open(struct key *key, bool open)
{
	if (key->is_open)
		LIST_REMOVE(key, open);
	if (open)
		LIST_INSERT_HEAD(&key->keys->open[key->place.file], key, open);
	key->is_open = open;
}

void key_set_place(struct key *key, struct journal_place place)
{
	struct keys *keys = key->keys;

	if (key->place.size > 0) {
		keys->live_bytes[key->place.file] -= key->place.size;
		keys->ended[key->place.file] -= !key->is_open;
	}
	key->tenant->bytes += place.size;
	key->tenant->bytes -= key->place.size;
	key->place = place;
	set_open(key, place.size > 0 && key->state != KEY_ENDED);
	if (place.size > 0) {
		keys->live_bytes[place.file] += place.size;
		keys->ended[place.file] += !key->is_open;
	}
}

void key_set_call(struct key *key, struct call *call)
{
	key->tenant->in_flight += call != NULL;
	key->tenant->in_flight -= key->call != NULL;
	key->call = call;
}

void key_set_ageing(struct key *key, bool ageing)
{
	if (key->is_ageing)
		TAILQ_REMOVE(&key->tenant->by_age, key, age);
	if (ageing)
		TAILQ_INSERT_TAIL(&key->tenant->by_age, key, age);
	key->is_ageing = ageing;
}

/* Takes it out of the table. It is freed when no record of it is on its way. */
static void forget_table_key(struct key *key)
{
	struct key **at = bucket_of(key->keys, key->id);

	while (*at != key)
		at = &(*at)->next;
	*at = key->next;
	key_set_place(key, (struct journal_place){0});
	key_set_ageing(key, false);
	key->tenant->keys--;
	key->keys->state.keys--;
	key_set_call(key, NULL);
	LIST_INSERT_HEAD(&key->keys->gone, key, open);
}

static void free_key(struct key *key)
{
	key_gate_free(key->gate);
	key_result_done(&key->held);
	free(key->change);
	free(key);
}

void key_free_if_gone(struct key *key)
{
	if (key->state != KEY_GONE || key->writes > 0)
		return;
	LIST_REMOVE(key, open);
	free_key(key);
}

enum key_state key_happen(struct key *key, enum key_event event)
{
	enum key_state before = (enum key_state)key->state;

	assert(next[before][event] != NEVER);
	key->state = (uint8_t)next[before][event];
	if (key->state == KEY_GONE && before != KEY_GONE)
		forget_table_key(key);
	return before;
}

void key_drop(struct key *key)
{
	key->state = KEY_GONE;
	forget_table_key(key);
	key_free_if_gone(key);
}

bool key_is_over(const struct key *key, uint64_t now)
{
	return key->is_ageing && key->writes == 0 && now > key->time_ms &&
	       now - key->time_ms > key->tenant->horizon_ms;
}

void key_expire(struct key *key)
{
	key_happen(key, KEY_EXPIRE);
	key_free_if_gone(key);
}

void key_expire_oldest(struct key_tenant *tenant, uint64_t now)
{
	struct key *key;

	while ((key = TAILQ_FIRST(&tenant->by_age)) && key_is_over(key, now))
		key_expire(key);
}

void key_expire_all(struct keys *keys)
{
	uint64_t now = (uint64_t)clock_unix_ms();
	struct key_tenant *tenant;

	LIST_FOREACH (tenant, &keys->tenants, link)
		key_expire_oldest(tenant, now);
}

struct keys *key_table_new(void)
{
	struct keys *keys = calloc(1, sizeof(*keys));

	if (!keys)
		return NULL;
	LIST_INIT(&keys->tenants);
	for (unsigned file = 0; file < JOURNAL_FILES; file++)
		LIST_INIT(&keys->open[file]);
	keys->n_buckets = BUCKETS_FIRST;
	keys->buckets = calloc(keys->n_buckets, sizeof(struct key *));
	if (!keys->buckets ||
		getrandom(keys->factors, sizeof(keys->factors), 0) != sizeof(keys->factors)) {
		key_table_free(keys);
		return NULL;
	}
	keys->factors[0] |= 1;
	keys->factors[1] |= 1;
	return keys;
}

void key_table_free(struct keys *keys)
{
	struct key_tenant *tenant;

	for (size_t i = 0; keys->buckets && i < keys->n_buckets; i++)
		while (keys->buckets[i]) {
			struct key *key = keys->buckets[i];

			keys->buckets[i] = key->next;
			free_key(key);
		}
	while (!LIST_EMPTY(&keys->gone)) {
		struct key *key = LIST_FIRST(&keys->gone);

		LIST_REMOVE(key, open);
		free_key(key);
	}
	while ((tenant = LIST_FIRST(&keys->tenants))) {
		LIST_REMOVE(tenant, link);
		free(tenant);
	}
	free(keys->buckets);
	free(keys);
}
