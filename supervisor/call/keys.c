// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Clients choose the keys; what is stored is a digest, in a hash table whose
 * order they cannot know. What was in the journal at the start has passed its checksum.
 */
#include "supervisor/call/keys.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/links.h"
#include "supervisor/base/clock.h"
#include "supervisor/call/call_request.h"
#include "supervisor/config/config.h"
#include "supervisor/journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#define TURN_BYTES    (1 * MIB) /* a smaller file is not left */
#define BUCKETS_FIRST 1024

enum key_state {
	KEY_WAITING,   /* its call has not begun, and nothing is in the journal */
	KEY_RECORDING, /* the beginning is on its way into the journal */
	KEY_BEGUN,     /* it is there, and nothing may be known of the end */
	KEY_ENDED,     /* so is the result */
	KEY_UNKNOWN,   /* the result is lost: cloisterd ended, or could not write it */
	KEY_GONE,      /* forgotten */
	KEY_STATES,
};

enum key_event {
	KEY_BEGIN,   /* its call is about to begin */
	KEY_WRITTEN, /* what was to be recorded is in the journal */
	KEY_FAILED,  /* it could not be written */
	KEY_END,     /* its call has ended with a result */
	KEY_LEAVE,   /* nothing of its call was begun */
	KEY_START,   /* cloisterd has read its journal */
	KEY_EXPIRE,  /* it is older than the horizon */
	KEY_EVENTS,
};

#define NEVER KEY_STATES /* an event that cannot come in a state */

/* clang-format off */
static const enum key_state next[KEY_STATES][KEY_EVENTS] = {
	[KEY_WAITING] = {
		[KEY_BEGIN] = KEY_RECORDING, [KEY_WRITTEN] = NEVER, [KEY_FAILED] = NEVER, [KEY_END] = NEVER,
		[KEY_LEAVE] = KEY_GONE, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER},
	[KEY_RECORDING] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_BEGUN, [KEY_FAILED] = KEY_WAITING, [KEY_END] = NEVER,
		[KEY_LEAVE] = KEY_GONE, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER},
	[KEY_BEGUN] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_BEGUN, [KEY_FAILED] = KEY_BEGUN, [KEY_END] = KEY_ENDED,
		[KEY_LEAVE] = KEY_GONE, [KEY_START] = KEY_UNKNOWN, [KEY_EXPIRE] = NEVER},
	[KEY_ENDED] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_ENDED, [KEY_FAILED] = KEY_UNKNOWN, [KEY_END] = NEVER,
		[KEY_LEAVE] = NEVER, [KEY_START] = KEY_ENDED, [KEY_EXPIRE] = KEY_GONE},
	[KEY_UNKNOWN] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_UNKNOWN, [KEY_FAILED] = KEY_UNKNOWN, [KEY_END] = NEVER,
		[KEY_LEAVE] = NEVER, [KEY_START] = KEY_UNKNOWN, [KEY_EXPIRE] = KEY_GONE},
	[KEY_GONE] = {
		[KEY_BEGIN] = NEVER, [KEY_WRITTEN] = KEY_GONE, [KEY_FAILED] = KEY_GONE, [KEY_END] = NEVER,
		[KEY_LEAVE] = NEVER, [KEY_START] = NEVER, [KEY_EXPIRE] = NEVER},
};

/* What another call with the key is answered: one of the same digest, and one of another. */
static const struct {
	enum key_answer same, other;
	enum tool_error why_same, why_other;
} arrivals[KEY_STATES] = {
	[KEY_WAITING] =   {KEY_JOIN,   KEY_REFUSE, TOOL_OK,              TOOL_KEY_CONFLICT},
	[KEY_RECORDING] = {KEY_JOIN,   KEY_REFUSE, TOOL_OK,              TOOL_KEY_CONFLICT},
	[KEY_BEGUN] =     {KEY_JOIN,   KEY_REFUSE, TOOL_OK,              TOOL_KEY_CONFLICT},
	[KEY_ENDED] =     {KEY_REPLAY, KEY_REFUSE, TOOL_OK,              TOOL_KEY_CONFLICT},
	[KEY_UNKNOWN] =   {KEY_REFUSE, KEY_REFUSE, TOOL_OUTCOME_UNKNOWN, TOOL_KEY_CONFLICT},
};
/* clang-format on */

/* The keys of one tenant, known by its name, because a reload replaces the tenant. */
struct key_tenant {
	LIST_ENTRY(key_tenant) link;
	size_t keys;
	uint64_t bytes; /* of their records */
	uint64_t horizon_ms;
	TAILQ_HEAD(, key) by_age; /* those that can expire, the oldest first */
	char name[];
};

struct key {
	struct key *next; /* in its bucket */
	struct keys *keys;
	struct key_tenant *tenant;
	TAILQ_ENTRY(key) age; /* if is_ageing */
	LIST_ENTRY(key) open; /* if is_open */
	struct call *call;    /* NULL once it is over */
	void (*recorded)(struct call *call, int error);
	struct key_result held; /* until it is written */
	uint64_t time_ms;       /* since the epoch: of its end, or else of its beginning */
	struct journal_place place;
	unsigned writes; /* records that are on their way */
	uint8_t state;   /* enum key_state */
	bool is_ageing;
	bool is_open; /* its only record is of its beginning */
	bool failed;  /* the result could not be written */
	uint8_t id[JOURNAL_ID_BYTES], digest[JOURNAL_ID_BYTES];
};

struct keys {
	struct journal *journal;
	struct key **buckets;
	size_t n_buckets; /* a power of two */
	uint64_t factors[2];
	LIST_HEAD(, key_tenant) tenants;
	LIST_HEAD(, key) open;
	LIST_HEAD(, key) gone;              /* not in the table, but a record of it is on its way */
	uint64_t live_bytes[JOURNAL_FILES]; /* of records that are needed */
	size_t ended[JOURNAL_FILES];        /* results that are needed */
	uint64_t end;                       /* of the current file, as far as is known */
	struct keys_state state;
};

/* The table. */

static struct key **bucket_of(const struct keys *keys, const uint8_t id[JOURNAL_ID_BYTES])
{
	uint64_t words[2];

	memcpy(words, id, sizeof(words));
	/* Multiplied by secret odd numbers: a client cannot choose keys that share a bucket. */
	return &keys->buckets[((words[0] * keys->factors[0] + words[1] * keys->factors[1]) >> 32) &
			      (keys->n_buckets - 1)];
}

static struct key *find(const struct keys *keys, const uint8_t id[JOURNAL_ID_BYTES])
{
	struct key *key = *bucket_of(keys, id);

	while (key && memcmp(key->id, id, JOURNAL_ID_BYTES) != 0)
		key = key->next;
	return key;
}

static void grow(struct keys *keys)
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

static struct key_tenant *tenant_of(struct keys *keys, struct text name)
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

static struct key *add(struct keys *keys, struct text tenant_name,
	const uint8_t id[JOURNAL_ID_BYTES], const uint8_t digest[JOURNAL_ID_BYTES])
{
	struct key_tenant *tenant = tenant_of(keys, tenant_name);
	struct key *key = tenant ? calloc(1, sizeof(*key)) : NULL, **bucket;

	if (!key)
		return NULL;
	if (keys->state.keys >= keys->n_buckets)
		grow(keys);
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
	if (open && !key->is_open)
		LIST_INSERT_HEAD(&key->keys->open, key, open);
	if (!open && key->is_open)
		LIST_REMOVE(key, open);
	key->is_open = open;
}

static void set_place(struct key *key, struct journal_place place)
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

static void set_ageing(struct key *key, bool ageing)
{
	if (key->is_ageing)
		TAILQ_REMOVE(&key->tenant->by_age, key, age);
	if (ageing)
		TAILQ_INSERT_TAIL(&key->tenant->by_age, key, age);
	key->is_ageing = ageing;
}

/* Takes it out of the table. It is freed when no record of it is on its way. */
static void forget(struct key *key)
{
	struct key **at = bucket_of(key->keys, key->id);

	while (*at != key)
		at = &(*at)->next;
	*at = key->next;
	set_place(key, (struct journal_place){0});
	set_ageing(key, false);
	key->tenant->keys--;
	key->keys->state.keys--;
	key->call = NULL;
	LIST_INSERT_HEAD(&key->keys->gone, key, open);
}

static void free_if_gone(struct key *key)
{
	if (key->state != KEY_GONE || key->writes > 0)
		return;
	LIST_REMOVE(key, open);
	key_result_done(&key->held);
	free(key);
}

/* Returns the state that it has left. */
static enum key_state happen(struct key *key, enum key_event event)
{
	enum key_state before = (enum key_state)key->state;

	assert(next[before][event] != NEVER);
	key->state = (uint8_t)next[before][event];
	if (key->state == KEY_GONE && before != KEY_GONE)
		forget(key);
	return before;
}

/* The journal. */

static void write_record(struct key *key, enum journal_type type, journal_done done)
{
	struct journal_record record = {.type = (uint8_t)type,
		.number = key->time_ms,
		.tenant = text_from(key->tenant->name),
		.code = text_from(tool_error_name(key->held.error)),
		.json = key->held.json,
		.model = key->held.model,
		.base64 = key->held.base64};

	memcpy(record.id, key->id, JOURNAL_ID_BYTES);
	memcpy(record.digest, key->digest, JOURNAL_ID_BYTES);
	key->writes++;
	journal_append(key->keys->journal, &record, done, key);
}

static void note_end(struct keys *keys, struct journal_place place)
{
	if (place.file == journal_current(keys->journal))
		keys->end = place.offset + place.size;
}

static void turn_if_worth(struct keys *keys);
static void expire_all(struct keys *keys);

/* The beginning of a call without a known end is in the current file now. */
static void on_carried(void *context, int error, struct journal_place place)
{
	struct key *key = context;
	struct keys *keys = key->keys;

	key->writes--;
	if (error == 0 && key->is_open) {
		set_place(key, place);
		note_end(keys, place);
	}
	free_if_gone(key);
	if (error == 0)
		turn_if_worth(keys);
}

/* Returns whether there was a record to carry, or one is on its way. */
static bool carry_open(struct keys *keys, unsigned file)
{
	struct key *key, *following;

	for (key = LIST_FIRST(&keys->open); key; key = following) {
		following = LIST_NEXT(key, open);
		if (key->place.file != file)
			continue;
		if (key->writes == 0)
			write_record(key, JOURNAL_BEGIN, on_carried);
		return true;
	}
	return false;
}

/* Continues in the other file, if no result there is needed and little of this one is. */
static void turn_if_worth(struct keys *keys)
{
	unsigned current = journal_current(keys->journal), other = !current;

	if (keys->end < TURN_BYTES)
		return;
	expire_all(keys);
	if (keys->ended[other] > 0 || keys->live_bytes[current] > keys->end / 2 ||
		carry_open(keys, other))
		return;
	keys->end = 0;
	journal_turn(keys->journal);
}

static void on_begun(void *context, int error, struct journal_place place)
{
	struct key *key = context;
	struct keys *keys = key->keys;

	key->writes--;
	if (error == 0)
		note_end(keys, place);
	if (happen(key, error < 0 ? KEY_FAILED : KEY_WRITTEN) == KEY_GONE) {
		free_if_gone(key);
		return;
	}
	if (error == 0)
		set_place(key, place);
	key->recorded(key->call, error);
}

void key_begin(struct key *key, void (*recorded)(struct call *call, int error))
{
	happen(key, KEY_BEGIN);
	key->recorded = recorded;
	key->time_ms = (uint64_t)clock_unix_ms();
	write_record(key, JOURNAL_BEGIN, on_begun);
}

static void on_ended(void *context, int error, struct journal_place place)
{
	struct key *key = context;
	struct keys *keys = key->keys;

	key->writes--;
	key_result_done(&key->held);
	key->failed = error < 0;
	if (happen(key, error < 0 ? KEY_FAILED : KEY_WRITTEN) != KEY_GONE && error == 0)
		set_place(key, place);
	if (error == 0)
		note_end(keys, place);
	free_if_gone(key);
	turn_if_worth(keys);
}

static int hold(struct key *key, const struct key_result *result)
{
	struct key_result held = *result;
	size_t len = held.json.len, all = len + held.model.len;

	held.buffer = malloc(all + 1);
	if (!held.buffer)
		return -ENOMEM;
	memcpy(held.buffer, held.json.data, len);
	if (held.model.len > 0)
		memcpy(held.buffer + len, held.model.data, held.model.len);
	held.json.data = held.buffer;
	held.model.data = held.buffer + len;
	key->held = held;
	return 0;
}

void key_end(struct key *key, const struct key_result *result)
{
	key->call = NULL;
	happen(key, KEY_END);
	key->time_ms = (uint64_t)clock_unix_ms();
	set_ageing(key, true);
	if (hold(key, result) == 0) {
		write_record(key, JOURNAL_END, on_ended);
	} else {
		happen(key, KEY_FAILED);
		key->failed = true;
	}
}

void key_lose(struct key *key)
{
	key->call = NULL;
	happen(key, KEY_END);
	happen(key, KEY_FAILED);
	key->failed = true;
	set_ageing(key, true);
}

static void on_dropped(void *context, int error, struct journal_place place)
{
	struct key *key = context;

	key->writes--;
	if (error == 0)
		note_end(key->keys, place);
	free_if_gone(key);
}

void key_leave(struct key *key)
{
	enum key_state before;

	key->call = NULL;
	before = happen(key, KEY_LEAVE);
	if (before != KEY_WAITING)
		write_record(key, JOURNAL_DROP, on_dropped);
	else
		free_if_gone(key);
}

/* Takes a record at the start. */
static int take(void *context, const struct journal_record *record, struct journal_place place)
{
	struct keys *keys = context;
	struct key *key = find(keys, record->id);

	if (key && (record->type == JOURNAL_DROP || key->state == KEY_ENDED)) {
		/* It was dropped; or it had expired before this beginning. */
		key->state = KEY_GONE;
		forget(key);
		free_if_gone(key);
		key = NULL;
	}
	if (record->type == JOURNAL_DROP)
		return 0;
	if (!key)
		key = add(keys, record->tenant, record->id, record->digest);
	if (!key)
		return -ENOMEM;
	memcpy(key->digest, record->digest, JOURNAL_ID_BYTES);
	key->state = record->type == JOURNAL_END ? KEY_ENDED : KEY_BEGUN;
	key->time_ms = record->number;
	set_place(key, place);
	set_ageing(key, true);
	keys->end = place.offset + place.size; /* the newer file comes last */
	return 0;
}

int keys_open(int directory_fd, bool durable, struct keys **ret)
{
	struct keys *keys = calloc(1, sizeof(*keys));
	struct key *key;
	int r = -ENOMEM;

	if (!keys)
		return r;
	LIST_INIT(&keys->tenants);
	LIST_INIT(&keys->open);
	keys->n_buckets = BUCKETS_FIRST;
	keys->buckets = calloc(keys->n_buckets, sizeof(struct key *));
	if (getrandom(keys->factors, sizeof(keys->factors), 0) == sizeof(keys->factors)) {
		keys->factors[0] |= 1;
		keys->factors[1] |= 1;
		r = keys->buckets ? journal_new(directory_fd, durable, take, keys, &keys->journal)
				  : -ENOMEM;
	}
	if (r < 0) {
		keys_free(keys);
		return r;
	}
	LIST_FOREACH (key, &keys->open, open)
		happen(key, KEY_START);
	*ret = keys;
	return 0;
}

int keys_start(struct keys *keys, struct event_base *base)
{
	return keys ? journal_start(keys->journal, base) : 0;
}

void keys_free(struct keys *keys)
{
	struct key_tenant *tenant;

	if (!keys)
		return;
	journal_free(keys->journal);
	for (size_t i = 0; keys->buckets && i < keys->n_buckets; i++)
		while (keys->buckets[i]) {
			struct key *key = keys->buckets[i];

			keys->buckets[i] = key->next;
			key_result_done(&key->held);
			free(key);
		}
	while (!LIST_EMPTY(&keys->gone)) {
		struct key *key = LIST_FIRST(&keys->gone);

		LIST_REMOVE(key, open);
		key_result_done(&key->held);
		free(key);
	}
	while ((tenant = LIST_FIRST(&keys->tenants))) {
		LIST_REMOVE(tenant, link);
		free(tenant);
	}
	free(keys->buckets);
	free(keys);
}

/* Other calls with the key. */

static bool is_over(const struct key *key, uint64_t now)
{
	return key->is_ageing && key->writes == 0 && now > key->time_ms &&
	       now - key->time_ms > key->tenant->horizon_ms;
}

static void expire(struct key *key)
{
	happen(key, KEY_EXPIRE);
	free_if_gone(key);
}

static void expire_oldest(struct key_tenant *tenant, uint64_t now)
{
	struct key *key;

	while ((key = TAILQ_FIRST(&tenant->by_age)) && is_over(key, now))
		expire(key);
}

static void expire_all(struct keys *keys)
{
	uint64_t now = (uint64_t)clock_unix_ms();
	struct key_tenant *tenant;

	LIST_FOREACH (tenant, &keys->tenants, link)
		expire_oldest(tenant, now);
}

void keys_configure(struct keys *keys, const struct config *config)
{
	struct key_tenant *tenant;

	if (!keys)
		return;
	LIST_FOREACH (tenant, &keys->tenants, link) {
		const struct tenant *configured = config_find_tenant(config, tenant->name);

		tenant->horizon_ms = configured ? configured->limits.key_horizon_ms : 0;
	}
}

/* Refuses a new key if its tenant has too many. */
static enum key_answer admit(const struct key_tenant *tenant, const struct tenant_limits *limits,
	uint64_t now, struct refusal *refusal)
{
	const struct key *oldest;
	uint64_t wait = LIMIT_RETRY_MAX_MS;

	if (tenant->keys < limits->keys && tenant->bytes < LIMIT_KEYS_TENANT_BYTES)
		return KEY_RUN;
	oldest = TAILQ_FIRST(&tenant->by_age);
	if (oldest && oldest->time_ms + limits->key_horizon_ms < now + wait)
		wait = oldest->time_ms + limits->key_horizon_ms + 1 - now;
	refusal_format(refusal, TOOL_BUSY,
		"As many calls with a key are remembered as this tenant may have (%llu keys, %llu "
		"bytes of results); try again later, or call without a key",
		(unsigned long long)limits->keys, LIMIT_KEYS_TENANT_BYTES);
	refusal->retry_after_ms = wait < LIMIT_RETRY_MIN_MS ? LIMIT_RETRY_MIN_MS : (int64_t)wait;
	return KEY_REFUSE;
}

static enum key_answer answer_known(
	struct keys *keys, const struct key *key, bool same, struct refusal *refusal)
{
	enum key_answer answer = same ? arrivals[key->state].same : arrivals[key->state].other;
	enum tool_error why = same ? arrivals[key->state].why_same : arrivals[key->state].why_other;

	keys->state.replayed += answer == KEY_REPLAY;
	keys->state.joined += answer == KEY_JOIN;
	keys->state.conflicts += why == TOOL_KEY_CONFLICT;
	keys->state.unknown += why == TOOL_OUTCOME_UNKNOWN;
	if (answer == KEY_REFUSE)
		refusal_set(refusal, why,
			why != TOOL_OUTCOME_UNKNOWN ? NULL
			: key->failed
				? "The call has ended, but its result could not be recorded, and "
				  "it may have had effects. Look, then use a new key"
				: "The service ended during this call. It may have had effects; "
				  "nothing of it runs any more. Look, then use a new key");
	return answer;
}

enum key_answer keys_arrive(
	struct keys *keys, const struct call_request *request, struct refusal *ret_refusal)
{
	const struct tenant_limits *limits = &request->tenant->limits;
	uint64_t now = (uint64_t)clock_unix_ms();
	struct key_tenant *tenant;
	struct key *key;

	if (!keys || limits->keys == 0) {
		refusal_set(ret_refusal, TOOL_FORBIDDEN,
			!keys ? "This service keeps no journal of keys (journal = off, or no state "
				"directory); call without options.key"
			      : "This tenant has no keys (keys = 0); call without options.key, or "
				"ask the administrator");
		return KEY_REFUSE;
	}
	tenant = tenant_of(keys, text_from(request->tenant->name));
	if (!tenant) {
		refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
		return KEY_REFUSE;
	}
	tenant->horizon_ms = limits->key_horizon_ms;
	expire_oldest(tenant, now);
	key = find(keys, request->key.id);
	if (key && is_over(key, now)) {
		expire(key);
		key = NULL;
	}
	if (!key)
		return admit(tenant, limits, now, ret_refusal);
	return answer_known(keys, key,
		memcmp(key->digest, request->key.digest, JOURNAL_ID_BYTES) == 0, ret_refusal);
}

int keys_replay(struct keys *keys, const struct call_request *request, struct key_result *ret,
	struct refusal *ret_refusal)
{
	const struct key *key = find(keys, request->key.id);
	struct journal_record record;
	_cleanup_free_ char *buffer = NULL;
	int r = -ENOMEM;

	assert(key && key->state == KEY_ENDED);
	if (key->held.buffer) { /* it is not written yet */
		*ret = key->held;
		ret->buffer = NULL;
		return 0;
	}
	buffer = malloc(key->place.size);
	if (buffer)
		r = journal_read(keys->journal, key->place, buffer, &record);
	if (r == 0 &&
		(record.type != JOURNAL_END || memcmp(record.id, key->id, JOURNAL_ID_BYTES) != 0))
		r = -EBADMSG;
	if (r < 0) {
		refusal_set(ret_refusal, r == -ENOMEM ? TOOL_BUSY : TOOL_OUTCOME_UNKNOWN,
			r == -ENOMEM ? "Out of memory; try again later"
				     : "The call has ended, but its result cannot be read. Look, "
				       "then use a new key");
		return r;
	}
	*ret = (struct key_result){record.json, record.model, tool_error_by_name(record.code),
		record.base64, TAKE_PTR(buffer)};
	return 0;
}

void key_result_done(struct key_result *result)
{
	free(result->buffer);
	*result = (struct key_result){0};
}

struct key *keys_lead(struct keys *keys, const struct call_request *request, struct call *call)
{
	struct key *key =
		add(keys, text_from(request->tenant->name), request->key.id, request->key.digest);

	if (key)
		key->call = call;
	return key;
}

struct call *keys_join(struct keys *keys, const struct call_request *request)
{
	const struct key *key = find(keys, request->key.id);

	return key ? key->call : NULL;
}

size_t keys_of_tenant(const struct keys *keys, const char *name)
{
	const struct key_tenant *tenant;

	LIST_FOREACH (tenant, &keys->tenants, link)
		if (strcmp(tenant->name, name) == 0)
			return tenant->keys;
	return 0;
}

bool keys_look(struct keys *keys, struct keys_state *ret_keys, struct journal_state *ret_journal)
{
	if (!keys)
		return false;
	*ret_keys = keys->state;
	journal_look(keys->journal, ret_journal);
	return true;
}
