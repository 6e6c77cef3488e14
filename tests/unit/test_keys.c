/* links: cloister-supervisor */
/* fakes: workspace egress_cell clock disk */
// SPDX-License-Identifier: Apache-2.0
/* Keys of calls: what each call with one is answered, what remains after a restart. */
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/keys/key_table.h"
#include "supervisor/call/keys/keys.h"

#include "supervisor/base/json_text.h"
#include "supervisor/journal/journal.h"
#include "tests/unit/fakes/disk.h"

#include "tests/lib/call_fixture.h"
#include "tests/lib/keys_fixture.h"
#include "tests/lib/rounds.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

static void assert_replay(struct fixture *f, char id, const char *json)
{
	struct call_request request = keyed(f, COMMAND, id, 'd');
	struct refusal refusal = {0};
	struct key_result result;

	assert_int_equal(keys_replay(f->service.keys, &request, &result, &refusal), 0);
	assert_int_equal(result.json.len, strlen(json));
	assert_memory_equal(result.json.data, json, strlen(json));
	key_result_done(&result);
	call_request_done(&request);
}

static struct key *lead(struct fixture *f, char id)
{
	struct call_request request = keyed(f, COMMAND, id, 'd');
	struct key *key = keys_lead(f->service.keys, &request, (struct call *)f);

	assert_non_null(key);
	call_request_done(&request);
	return key;
}

static int recorded_error;

static void on_recorded(struct call *call, int error)
{
	assert_non_null(call);
	recorded_error = error;
}

static const struct key_result some_result = {
	.json = TEXT_LITERAL("{\"n\":1}"), .error = TOOL_TIMEOUT};

static struct key *begin_key(struct fixture *f, char id)
{
	struct key *key = lead(f, id);

	recorded_error = 1;
	key_begin(key, NULL, on_recorded);
	assert_int_equal(recorded_error, 0);
	return key;
}

FIXTURE(set_up_keys, tear_down_keys)

TEST(test_every_state)
{
	struct fixture *f = *state;
	struct key *key;

	assert_string_equal(arrival(f, 'a', 'd'), "run");
	key = lead(f, 'a');
	assert_string_equal(arrival(f, 'a', 'd'), "join");
	assert_string_equal(arrival(f, 'a', 'x'), "KEY_CONFLICT");
	key_leave(key);
	assert_string_equal(arrival(f, 'a', 'x'), "run");

	key = begin_key(f, 'b');
	assert_string_equal(arrival(f, 'b', 'd'), "join");
	assert_string_equal(arrival(f, 'b', 'x'), "KEY_CONFLICT");
	key_leave(key);
	assert_string_equal(arrival(f, 'b', 'd'), "run");

	key_end(begin_key(f, 'c'), &some_result);
	assert_string_equal(arrival(f, 'c', 'd'), "replay");
	assert_string_equal(arrival(f, 'c', 'x'), "KEY_CONFLICT");
	assert_replay(f, 'c', "{\"n\":1}");

	key_lose(begin_key(f, 'd'));
	assert_string_equal(arrival(f, 'd', 'd'), "OUTCOME_UNKNOWN");
	assert_string_equal(arrival(f, 'd', 'x'), "KEY_CONFLICT");

	/* After a restart: c as it was, and a and b are free. */
	restart(f);
	assert_string_equal(arrival(f, 'a', 'd'), "run");
	assert_string_equal(arrival(f, 'b', 'd'), "run");
	assert_string_equal(arrival(f, 'c', 'd'), "replay");
	assert_replay(f, 'c', "{\"n\":1}");
	assert_string_equal(arrival(f, 'c', 'x'), "KEY_CONFLICT");
	assert_string_equal(arrival(f, 'd', 'd'), "OUTCOME_UNKNOWN");
}

TEST(test_a_beginning_without_an_end)
{
	struct fixture *f = *state;

	(void)begin_key(f, 'a');
	for (int i = 0; i < 2; i++) {
		restart(f);
		assert_string_equal(arrival(f, 'a', 'd'), "OUTCOME_UNKNOWN");
		assert_string_equal(arrival(f, 'a', 'x'), "KEY_CONFLICT");
	}
}

TEST(test_the_horizon)
{
	struct fixture *f = *state;
	struct key *key;

	key_end(begin_key(f, 'a'), &some_result);
	key = begin_key(f, 'b');
	f->tenant->limits.key_horizon_ms = 0;
	fake_clock_pass(3);
	assert_string_equal(arrival(f, 'a', 'x'), "run");
	/* One whose call runs is never forgotten. */
	assert_string_equal(arrival(f, 'b', 'd'), "join");
	key_end(key, &some_result);
	f->tenant->limits.key_horizon_ms = 3600000;
	assert_string_equal(arrival(f, 'b', 'd'), "replay");
	assert_int_equal(keys_of_tenant(f->service.keys, "tenant"), 1);
}

TEST(test_the_bound)
{
	struct fixture *f = *state;

	for (int id = 'a'; id < 'e'; id++)
		key_end(begin_key(f, (char)id), &some_result);
	assert_string_equal(arrival(f, 'e', 'd'), "BUSY");
	assert_string_equal(arrival(f, 'a', 'd'), "replay");
	restart(f);
	assert_string_equal(arrival(f, 'e', 'd'), "BUSY");
	f->tenant->limits.keys = 0;
	assert_string_equal(arrival(f, 'a', 'd'), "FORBIDDEN");
}

/* The results that are to come count as the largest ones, so the bound of bytes holds. */
TEST(test_the_bound_of_bytes)
{
	struct fixture *f = *state;
	const size_t most = LIMIT_KEYS_TENANT_BYTES / LIMIT_JOURNAL_RECORD_BYTES;
	struct key *keys[LIMIT_KEYS_TENANT_BYTES / LIMIT_JOURNAL_RECORD_BYTES];

	f->tenant->limits.keys = 2 * most;
	for (size_t i = 0; i < most; i++) {
		struct call_request request = keyed(f, COMMAND, 'k', 'd');

		memcpy(request.key.id, &i, sizeof(i));
		assert_string_equal(arrival(f, 'z', 'd'), "run");
		keys[i] = keys_lead(f->service.keys, &request, (struct call *)f);
		call_request_done(&request);
	}
	assert_string_equal(arrival(f, 'z', 'd'), "BUSY");
	key_leave(keys[0]);
	assert_string_equal(arrival(f, 'z', 'd'), "run");
	for (size_t i = 1; i < most; i++)
		key_leave(keys[i]);
}

TEST(test_a_full_disk)
{
	struct fixture *f = *state;
	struct key *key = begin_key(f, 'a'), *second = lead(f, 'b');

	fake_disk_error = ENOSPC;
	fake_disk_room = 0;
	key_end(key, &some_result);
	assert_string_equal(arrival(f, 'a', 'd'), "OUTCOME_UNKNOWN");
	key_begin(second, NULL, on_recorded);
	assert_int_equal(recorded_error, -ENOSPC);
	key_leave(second);
	assert_string_equal(arrival(f, 'b', 'd'), "run");
	fake_disk_reset();
	restart(f);
	assert_string_equal(arrival(f, 'a', 'd'), "OUTCOME_UNKNOWN");
	assert_string_equal(arrival(f, 'b', 'd'), "run");
}

static void forget(struct fixture *f, char id)
{
	uint8_t bytes[JOURNAL_ID_BYTES];

	memset(bytes, id, sizeof(bytes));
	keys_forget(f->service.keys, bytes);
}

TEST(test_forget)
{
	struct fixture *f = *state;
	struct key *running;

	key_end(begin_key(f, 'a'), &some_result);
	key_lose(begin_key(f, 'b'));
	running = begin_key(f, 'c');
	for (int id = 'a'; id <= 'd'; id++)
		forget(f, (char)id);
	assert_string_equal(arrival(f, 'a', 'x'), "run");
	assert_string_equal(arrival(f, 'b', 'x'), "run");
	assert_string_equal(arrival(f, 'c', 'd'), "join");
	key_end(running, &some_result);
	assert_int_equal(keys_of_tenant(f->service.keys, "tenant"), 1);
	restart(f);
	assert_string_equal(arrival(f, 'a', 'x'), "run");
	assert_string_equal(arrival(f, 'c', 'd'), "replay");
	assert_int_equal(keys_of_tenant(f->service.keys, "tenant"), 1);
	/* What a full disk does not record is remembered again. */
	fake_disk_error = ENOSPC;
	fake_disk_room = 0;
	forget(f, 'c');
	assert_string_equal(arrival(f, 'c', 'x'), "run");
	fake_disk_reset();
	restart(f);
	assert_string_equal(arrival(f, 'c', 'd'), "replay");
	forget(f, 'c');
	assert_int_equal(keys_of_tenant(f->service.keys, "tenant"), 0);
	keys_forget(NULL, (const uint8_t[JOURNAL_ID_BYTES]){0});
}

#define TURN_ROUNDS 60 /* of fill(), after which a file is worth leaving */

static char content[20000];

/* Lets calls end, and forgets them. */
static void fill(struct fixture *f, int rounds)
{
	const struct key_result large = {
		.json = {memset(content, 'x', sizeof(content)), sizeof(content)}};

	for (int i = 0; i < rounds; i++) {
		key_end(begin_key(f, 'g'), &large);
		forget(f, 'g');
	}
}

/* The same, until the journal has changed its file. */
static void fill_and_turn(struct fixture *f)
{
	const unsigned current = journal_current(f->service.keys->journal);

	for (int i = 0; journal_current(f->service.keys->journal) == current; i++) {
		assert_true(i < 3000);
		fill(f, 1);
	}
}

/* However many there are, the loop writes few of them at a time. */
TEST(test_many_lost_calls)
{
	const size_t lost = rounds(10000, 50000);
	struct fixture *f = *state;

	f->tenant->limits.keys = 2 * lost;
	assert_string_equal(arrival(f, 'k', 'd'), "run"); /* the tenant is known */
	for (size_t i = 0; i < lost; i++) {
		struct call_request request = keyed(f, COMMAND, 'k', 'd');
		struct key *key;

		memcpy(request.key.id, &i, sizeof(i));
		key = keys_lead(f->service.keys, &request, (struct call *)f);
		key_begin(key, NULL, on_recorded);
		key_lose(key);
		call_request_done(&request);
	}
	fill_and_turn(f);
	fill_and_turn(f);
	assert_int_equal(keys_of_tenant(f->service.keys, "tenant"), lost);
	restart(f);
	assert_int_equal(keys_of_tenant(f->service.keys, "tenant"), lost);
}

/* While a result keeps a file from being emptied, one tenant does not fill the other one. */
TEST(test_what_a_tenant_may_write)
{
	struct fixture *f = *state;
	struct key_tenant *tenant;
	unsigned file;

	assert_string_equal(arrival(f, 'p', 'd'), "run"); /* the tenant is known */
	key_end(begin_key(f, 'p'), &some_result);
	fill_and_turn(f);
	file = journal_current(f->service.keys->journal);
	tenant = key_tenant_of(f->service.keys, TEXT_LITERAL("tenant"));
	assert_true(tenant->written[file] < sizeof(content));
	fill(f, TURN_ROUNDS);
	assert_true(tenant->written[file] > TURN_ROUNDS * sizeof(content));
	assert_string_equal(arrival(f, 'n', 'd'), "run");
	restart(f);
	tenant = key_tenant_of(f->service.keys, TEXT_LITERAL("tenant"));
	assert_true(tenant->written[file] > TURN_ROUNDS * sizeof(content));

	tenant->written[file] = LIMIT_KEYS_WRITTEN_BYTES - LIMIT_JOURNAL_RECORD_BYTES + 1;
	assert_string_equal(arrival(f, 'n', 'd'), "BUSY");
	assert_string_equal(arrival(f, 'p', 'd'), "replay");
	/* The file is emptied as soon as that is possible, though no call ends. */
	f->tenant->limits.key_horizon_ms = 0;
	fake_clock_pass(3);
	assert_string_equal(arrival(f, 'n', 'd'), "run");
	assert_int_equal(journal_current(f->service.keys->journal), !file);
}

/* One whose record waits for a disk that hangs is older than the horizon, and is not forgotten. */
TEST(test_the_bound_while_a_disk_hangs)
{
	struct fixture *f = *state;
	const char ids[] = "abcd";
	uint8_t id[JOURNAL_ID_BYTES];

	f->tenant->limits.key_horizon_ms = 1;
	for (size_t i = 0; ids[i]; i++) {
		assert_string_equal(arrival(f, ids[i], 'd'), "run");
		key_end(begin_key(f, ids[i]), &some_result);
		memset(id, ids[i], sizeof(id));
		key_find(f->service.keys, id)->writes++;
	}
	fake_clock_pass(5);
	assert_string_equal(arrival(f, 'n', 'd'), "BUSY"); /* with a time that is not negative */
}

/* Nor do many tenants: each has a share, also one that has written nothing yet. */
TEST(test_what_many_tenants_may_write)
{
	struct fixture *f = *state;
	struct keys *keys = f->service.keys;
	const unsigned file = journal_current(keys->journal);
	struct key_tenant *tenant;
	const char *const others[] = {"a", "b", "c"};

	keys->n_tenants = 5;
	assert_string_equal(arrival(f, 'n', 'd'), "run"); /* the tenant is known */
	tenant = key_tenant_of(keys, TEXT_LITERAL("tenant"));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		key_tenant_of(keys, text_from(others[i]))->written[file] = LIMIT_KEYS_WRITTEN_BYTES;
	tenant->written[file] = LIMIT_JOURNAL_FILE_BYTES - 3 * LIMIT_KEYS_WRITTEN_BYTES -
				LIMIT_JOURNAL_FILE_BYTES / 10 - LIMIT_JOURNAL_RECORD_BYTES;
	assert_string_equal(arrival(f, 'n', 'd'), "run");
	tenant->written[file] += KIB;
	assert_string_equal(arrival(f, 'n', 'd'), "BUSY");
	/* Calls that run will write. */
	tenant->written[file] -= KIB;
	key_tenant_of(keys, TEXT_LITERAL("a"))->in_flight = 1;
	assert_string_equal(arrival(f, 'n', 'd'), "BUSY");
	tenant->written[file] = LIMIT_JOURNAL_FILE_BYTES / 10 - LIMIT_JOURNAL_RECORD_BYTES;
	assert_string_equal(arrival(f, 'n', 'd'), "run");
}

/* While a disk does not answer, one tenant's records leave room for another's. */
TEST(test_a_share_of_the_queue)
{
	struct fixture *f = *state;
	uint8_t id[JOURNAL_ID_BYTES] = "other";

	close_keys(f);
	open_keys(f, true); /* and its thread is not started */
	recorded_error = 1;
	for (size_t i = 0; recorded_error == 1; i++) {
		struct call_request request = keyed(f, COMMAND, 'k', 'd');
		struct key *key;

		memcpy(request.key.id, &i, sizeof(i));
		key = keys_lead(f->service.keys, &request, (struct call *)f);
		key_begin(key, NULL, on_recorded);
		call_request_done(&request);
	}
	assert_int_equal(recorded_error, -ENOBUFS);
	recorded_error = 1;
	key_begin(key_add(f->service.keys, TEXT_LITERAL("other"), id, id), NULL, on_recorded);
	assert_int_equal(recorded_error, 1);
}
