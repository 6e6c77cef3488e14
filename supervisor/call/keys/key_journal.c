// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, and touches files through supervisor/journal/ alone. What was in the journal
 * at the start has passed its checksum.
 */
#include "supervisor/call/keys/key_journal.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/keys/key_change.h"
#include "supervisor/call/keys/key_gate.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/keys/key_table.h"
#include "supervisor/journal/journal.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN_BYTES      (1 * MIB) /* a smaller file is not left */
#define CARRIED_AT_ONCE 64        /* records of calls without a known end */
#define RECORD_BYTES    256       /* of a record beside its result */

static void write_record(
	struct key *key, enum journal_type type, struct key_gate *gate, journal_done done)
{
	struct journal_record record = {.type = (uint8_t)type,
		.number = key->time_ms,
		.tenant = text_from(key->tenant->name),
		.code = text_from(tool_error_name(key->held.error)),
		.json = key->held.json,
		.model = key->held.model,
		.base64 = key->held.base64};
	size_t bytes = RECORD_BYTES + record.json.len + record.model.len;

	if (key->change) {
		record.before = text_from(key->change->before);
		record.after = text_from(key->change->after);
		bytes += record.before.len + record.after.len;
	}
	memcpy(record.id, key->id, JOURNAL_ID_BYTES);
	memcpy(record.digest, key->digest, JOURNAL_ID_BYTES);
	key->writes++;
	if (key->tenant->queued + bytes > LIMIT_JOURNAL_QUEUE_TENANT_BYTES) {
		done(key, -ENOBUFS, (struct journal_place){0});
		return;
	}
	key->queued += bytes;
	key->tenant->queued += bytes;
	journal_append(key->keys->journal, &record, gate ? &gate->journal : NULL, done, key);
}

/* A record of @key is not on its way any more. */
static void end_write(struct key *key)
{
	if (--key->writes > 0)
		return;
	key->tenant->queued -= key->queued;
	key->queued = 0;
}

/* Two empty texts: it changes nothing any more. */
int key_set_change(struct key *key, struct text before, struct text after)
{
	free(key->change);
	key->change = NULL;
	if (before.len == 0 && after.len == 0)
		return 0;
	if (before.len > JOURNAL_CHANGE_BYTES || after.len > JOURNAL_CHANGE_BYTES)
		return -EMSGSIZE;
	key->change = key_change_new(before, after);
	return key->change ? 0 : -ENOMEM;
}

/* A record of @key has been written. */
static void note_written(struct key *key, struct journal_place place)
{
	struct keys *keys = key->keys;

	key->tenant->written[place.file] += place.size;
	if (place.file == journal_current(keys->journal))
		keys->end = place.offset + place.size;
}

/* The beginning of a call without a known end is in the current file now. */
static void on_carried(void *context, int error, struct journal_place place)
{
	struct key *key = context;
	struct keys *keys = key->keys;

	end_write(key);
	if (error == 0)
		note_written(key, place);
	if (error == 0 && key->is_open)
		key_set_place(key, place);
	key_free_if_gone(key);
	if (error == 0 && !keys->carrying)
		keys_turn_if_worth(keys);
}

/*
 * Carries some records at a time, so that others need not wait long. Returns whether there are
 * more, or some are on their way.
 */
static bool carry_open(struct keys *keys, unsigned file)
{
	struct key *key = LIST_FIRST(&keys->open[file]), *following;

	keys->carrying = true;
	for (unsigned n = 0; key && n < CARRIED_AT_ONCE; n++, key = following) {
		following = LIST_NEXT(key, open);
		if (key->writes == 0)
			write_record(key, JOURNAL_BEGIN, NULL, on_carried);
	}
	keys->carrying = false;
	return !LIST_EMPTY(&keys->open[file]);
}

/* It is, if no result there is needed and little of this one is. */
void keys_turn_if_worth(struct keys *keys)
{
	unsigned current = journal_current(keys->journal), other = !current;
	struct key_tenant *tenant;

	if (keys->end < TURN_BYTES)
		return;
	key_expire_all(keys);
	if (keys->ended[other] > 0 || keys->live_bytes[current] > keys->end / 2 ||
		carry_open(keys, other))
		return;
	keys->end = 0;
	LIST_FOREACH (tenant, &keys->tenants, link)
		tenant->written[other] = 0;
	journal_turn(keys->journal);
}

static void on_begun(void *context, int error, struct journal_place place)
{
	struct key *key = context;
	struct keys *keys = key->keys;
	struct key_gate *gate = TAKE_PTR(key->gate);

	end_write(key);
	/* Without a byte the command finds the end of the socket, and does not begin. */
	if (gate && !gate->journal.opens)
		key_gate_free(gate);
	if (error == 0)
		note_written(key, place);
	if (key_happen(key, error < 0 ? KEY_FAILED : KEY_WRITTEN) == KEY_GONE) {
		key_free_if_gone(key);
		return;
	}
	if (error == 0)
		key_set_place(key, place);
	key->recorded(key->call, error);
	/* The file may be full, and nothing else would end. */
	if (error < 0)
		keys_turn_if_worth(keys);
}

void key_begin(
	struct key *key, struct key_gate *gate, void (*recorded)(struct call *call, int error))
{
	key_happen(key, KEY_BEGIN);
	key->gate = gate;
	key->recorded = recorded;
	key->time_ms = (uint64_t)clock_unix_ms();
	write_record(key, JOURNAL_BEGIN, gate, on_begun);
}

void key_shut_gate(struct key *key)
{
	struct key_gate *gate = key->gate;

	/* If it could not be written, the gate has gone with it. */
	if (!gate || !journal_shut_gate(key->keys->journal, &gate->journal) || !key->gate)
		return;
	shared_fd_close(TAKE_PTR(gate->shared), true);
}

bool keys_are_apart(const struct keys *keys)
{
	return journal_is_apart(keys->journal);
}

static void on_record_ended(void *context, int error, struct journal_place place)
{
	struct key *key = context;
	struct keys *keys = key->keys;

	end_write(key);
	key_result_done(&key->held);
	key->failed = error < 0;
	if (error == 0)
		(void)key_set_change(key, (struct text){0}, (struct text){0});
	if (key_happen(key, error < 0 ? KEY_FAILED : KEY_WRITTEN) != KEY_GONE && error == 0)
		key_set_place(key, place);
	if (error == 0)
		note_written(key, place);
	key_free_if_gone(key);
	keys_turn_if_worth(keys);
}

static int hold_key_result(struct key *key, const struct key_result *result)
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
	key_set_call(key, NULL);
	key_happen(key, KEY_END);
	key->time_ms = (uint64_t)clock_unix_ms();
	key_set_ageing(key, true);
	if (hold_key_result(key, result) == 0) {
		write_record(key, JOURNAL_END, NULL, on_record_ended);
	} else {
		key_happen(key, KEY_FAILED);
		key->failed = true;
	}
}

void key_lose(struct key *key)
{
	key_set_call(key, NULL);
	key_happen(key, KEY_END);
	key_happen(key, KEY_FAILED);
	key->failed = true;
	key_set_ageing(key, true);
}

static void on_dropped(void *context, int error, struct journal_place place)
{
	struct key *key = context;

	end_write(key);
	if (error == 0)
		note_written(key, place);
	key_free_if_gone(key);
}

void key_leave(struct key *key)
{
	enum key_state before;

	key_set_call(key, NULL);
	before = key_happen(key, KEY_LEAVE);
	if (before == KEY_RESOLVING)
		key_set_ageing(key, true);
	else if (before != KEY_WAITING)
		write_record(key, JOURNAL_DROP, NULL, on_dropped);
	else
		key_free_if_gone(key);
}

void key_forget(struct key *key)
{
	key_happen(key, KEY_EXPIRE);
	/* If it cannot be written, the key is remembered again after a restart. */
	write_record(key, JOURNAL_DROP, NULL, on_dropped);
}

/* Takes a record at the start. */
static int take_key_record(
	void *context, const struct journal_record *record, struct journal_place place)
{
	struct keys *keys = context;
	struct key *key = key_find(keys, record->id);

	if (key && record->type == JOURNAL_DROP)
		key->tenant->written[place.file] += place.size;
	if (key && (record->type == JOURNAL_DROP || key->state == KEY_ENDED)) {
		/* It was dropped; or it had expired before this beginning. */
		key_drop(key);
		key = NULL;
	}
	if (record->type == JOURNAL_DROP)
		return 0;
	if (!key)
		key = key_add(keys, record->tenant, record->id, record->digest);
	if (!key)
		return -ENOMEM;
	key->tenant->written[place.file] += place.size;
	if (key_set_change(key, record->before, record->after) < 0)
		return -ENOMEM;
	memcpy(key->digest, record->digest, JOURNAL_ID_BYTES);
	key->state = record->type == JOURNAL_END ? KEY_ENDED : KEY_BEGUN;
	key->time_ms = record->number;
	key_set_place(key, place);
	key_set_ageing(key, true);
	keys->end = place.offset + place.size; /* the newer file comes last */
	return 0;
}

int keys_open(int directory_fd, bool durable, struct keys **ret)
{
	struct keys *keys = key_table_new();
	struct key *key;
	int r;

	if (!keys)
		return -ENOMEM;
	r = journal_new(directory_fd, durable, take_key_record, keys, &keys->journal);
	if (r < 0) {
		keys_free(keys);
		return r;
	}
	for (unsigned file = 0; file < JOURNAL_FILES; file++)
		LIST_FOREACH (key, &keys->open[file], open)
			key_happen(key, KEY_START);
	*ret = keys;
	return 0;
}

int keys_start(struct keys *keys, struct event_base *base)
{
	return keys ? journal_start(keys->journal, base) : 0;
}

void keys_free(struct keys *keys)
{
	/* A thread that hangs in a write still uses gates. */
	if (keys && journal_free(keys->journal))
		key_table_free(keys);
}
