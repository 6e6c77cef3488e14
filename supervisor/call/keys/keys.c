// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Clients choose the keys, and send any call with any key of theirs. A result
 * that is read back from the journal has passed its checksum.
 */
#include "supervisor/call/keys/keys.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/key_table.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/config/config.h"
#include "supervisor/journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
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
	[KEY_RESOLVING] = {KEY_JOIN,   KEY_REFUSE, TOOL_OK,              TOOL_KEY_CONFLICT},
};
/* clang-format on */

void keys_configure(struct keys *keys, const struct config *config)
{
	struct key_tenant *tenant;

	if (!keys)
		return;
	keys->n_tenants = config->n_tenants;
	LIST_FOREACH (tenant, &keys->tenants, link) {
		const struct tenant *configured = config_find_tenant(config, tenant->name);

		tenant->horizon_ms = configured ? configured->limits.key_horizon_ms : 0;
	}
}

/*
 * Whether the tenant may write so much more to the current file. Each has a share of one half of
 * it; the other half is for those who come first, so that many who fill it shut out nobody.
 */
static bool may_write(const struct keys *keys, const struct key_tenant *tenant, uint64_t bytes)
{
	const unsigned file = journal_current(keys->journal);
	const uint64_t wanted = tenant->written[file] + bytes;
	const struct key_tenant *other;
	uint64_t share, taken = wanted;
	size_t known = 1;

	LIST_FOREACH (other, &keys->tenants, link)
		known += other != tenant;
	share = LIMIT_JOURNAL_FILE_BYTES / 2 / (keys->n_tenants > known ? keys->n_tenants : known);
	if (wanted <= share || wanted > LIMIT_KEYS_WRITTEN_BYTES)
		return wanted <= LIMIT_KEYS_WRITTEN_BYTES;
	LIST_FOREACH (other, &keys->tenants, link) {
		uint64_t theirs =
			other->written[file] + other->in_flight * LIMIT_JOURNAL_RECORD_BYTES;

		if (other != tenant)
			taken += theirs > share ? theirs : share;
	}
	if (keys->n_tenants > known)
		taken += (keys->n_tenants - known) * share;
	return taken <= LIMIT_JOURNAL_FILE_BYTES;
}

/* Refuses a new key if its tenant has too many. */
static enum key_answer admit(struct keys *keys, const struct key_tenant *tenant,
	const struct tenant_limits *limits, uint64_t now, struct refusal *refusal)
{
	/* Each call in flight may still get the largest result. */
	const uint64_t to_come = (tenant->in_flight + 1) * LIMIT_JOURNAL_RECORD_BYTES;
	const struct key *oldest;
	uint64_t over, wait;

	if (!may_write(keys, tenant, to_come))
		keys_turn_if_worth(keys);
	if (!may_write(keys, tenant, to_come)) {
		refusal_set(refusal, TOOL_BUSY,
			"This tenant's calls with a key have written as much to their journal as "
			"they may until older results are not needed any more; try again later, "
			"or call without a key");
		refusal->retry_after_ms = LIMIT_RETRY_MAX_MS;
		return KEY_REFUSE;
	}
	if (tenant->keys < limits->keys && tenant->bytes + to_come <= LIMIT_KEYS_TENANT_BYTES)
		return KEY_RUN;
	oldest = TAILQ_FIRST(&tenant->by_age);
	over = oldest ? oldest->time_ms + limits->key_horizon_ms + 1 : UINT64_MAX;
	/* One whose record waits for the disk is kept beyond the horizon. */
	wait = over > now ? over - now : 0;
	refusal_format(refusal, TOOL_BUSY,
		"As many calls with a key are remembered as this tenant may have (%llu keys, %llu "
		"bytes of results); try again later, or call without a key",
		(unsigned long long)limits->keys, LIMIT_KEYS_TENANT_BYTES);
	refusal->retry_after_ms = wait < LIMIT_RETRY_MIN_MS   ? LIMIT_RETRY_MIN_MS
				  : wait > LIMIT_RETRY_MAX_MS ? LIMIT_RETRY_MAX_MS
							      : (int64_t)wait;
	return KEY_REFUSE;
}

static enum key_answer answer_known(
	struct keys *keys, const struct key *key, bool same, struct refusal *refusal)
{
	enum key_answer answer = same ? arrivals[key->state].same : arrivals[key->state].other;
	enum tool_error why = same ? arrivals[key->state].why_same : arrivals[key->state].why_other;

	if (why == TOOL_OUTCOME_UNKNOWN && key->change)
		return KEY_RUN; /* it looks what has become of the first one */
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
	tenant = key_tenant_of(keys, text_from(request->tenant->name));
	if (!tenant) {
		refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
		return KEY_REFUSE;
	}
	tenant->horizon_ms = limits->key_horizon_ms;
	key_expire_oldest(tenant, now);
	key = key_find(keys, request->key.id);
	if (keys->paused && (!key || arrivals[key->state].same != KEY_JOIN)) {
		refusal_set(ret_refusal, TOOL_BUSY,
			"Another generation of the service keeps the journal of keys now: connect "
			"again, and repeat the call with its key");
		ret_refusal->retry_after_ms = LIMIT_RETRY_MIN_MS;
		return KEY_REFUSE;
	}
	if (key && key_is_over(key, now)) {
		key_expire(key);
		key = NULL;
	}
	if (!key)
		return admit(keys, tenant, limits, now, ret_refusal);
	return answer_known(keys, key,
		memcmp(key->digest, request->key.digest, JOURNAL_ID_BYTES) == 0, ret_refusal);
}

int keys_replay(struct keys *keys, const struct call_request *request, struct key_result *ret,
	struct refusal *ret_refusal)
{
	const struct key *key = key_find(keys, request->key.id);
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

void keys_forget(struct keys *keys, const uint8_t id[static JOURNAL_ID_BYTES])
{
	struct key *key = keys ? key_find(keys, id) : NULL;

	if (key && !keys->paused && (key->state == KEY_ENDED || key->state == KEY_UNKNOWN))
		key_forget(key);
}

void keys_pause(struct keys *keys, bool paused)
{
	if (!keys)
		return;
	keys->paused = paused;
	if (!paused)
		journal_release(keys->journal);
}

void keys_hold(struct keys *keys)
{
	if (keys)
		journal_hold(keys->journal);
}

bool keys_rest(const struct keys *keys)
{
	return !keys || journal_rests(keys->journal);
}

void keys_relay(struct keys *keys, void (*relay)(void *context, struct text record), void *context)
{
	if (keys)
		journal_relay(keys->journal, relay, context);
}

/* The journal said that the call had begun, and then no more: this is the rest. */
void keys_relayed(struct keys *keys, struct text bytes)
{
	struct journal_record record;
	struct key_result result;
	struct key *key;

	if (!keys || journal_record_get(bytes, &record) != (int)bytes.len)
		return;
	key = key_find(keys, record.id);
	if (!key || key->state != KEY_UNKNOWN)
		return;
	if (record.type == JOURNAL_DROP) {
		key_forget(key);
		return;
	}
	if (record.type != JOURNAL_END)
		return;
	result = (struct key_result){.json = record.json,
		.model = record.model,
		.error = tool_error_by_name(record.code),
		.base64 = record.base64};
	key_happen(key, KEY_RESOLVE);
	key_set_ageing(key, false);
	key_end(key, &result);
}

struct key *keys_lead(struct keys *keys, const struct call_request *request, struct call *call)
{
	struct key *key = key_find(keys, request->key.id);

	if (key) {
		key_happen(key, KEY_RESOLVE);
		key_set_ageing(key, false);
	} else {
		key = key_add(keys, text_from(request->tenant->name), request->key.id,
			request->key.digest);
	}
	if (key)
		key_set_call(key, call);
	return key;
}

struct call *keys_join(struct keys *keys, const struct call_request *request)
{
	const struct key *key = key_find(keys, request->key.id);

	return key ? key->call : NULL;
}

const struct key_change *key_resolves(const struct key *key)
{
	return key->state == KEY_RESOLVING ? key->change : NULL;
}

void key_resolved(struct key *key, bool known)
{
	key->keys->state.resolved += known;
	key->keys->state.unknown += !known;
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
