/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Calls with keys and their journal. */

#include "supervisor/call/keys/keys.h"
#include "tests/lib/call_fixture.h"
#include "tests/lib/scratch.h"
#include "tests/lib/unit.h"

static struct scratch scratch;

static void open_keys(struct fixture *f, bool durable)
{
	assert_int_equal(keys_open(scratch.fd, durable, &f->service.keys), 0);
	f->tenant->limits.keys = 4;
	f->tenant->limits.key_horizon_ms = 3600000;
}

static void close_keys(struct fixture *f)
{
	keys_free(f->service.keys);
	f->service.keys = NULL;
}

/* Ends cloisterd's knowledge and reads the journal again. */
static void restart(struct fixture *f)
{
	close_keys(f);
	open_keys(f, false);
}

static int set_up_keys(void **state)
{
	scratch = scratch_new();
	assert_int_equal(set_up(state), 0);
	open_keys(*state, false);
	return 0;
}

static int tear_down_keys(void **state)
{
	struct fixture *f = *state;

	close_keys(f);
	scratch_done(&scratch);
	return tear_down(state);
}

/* A request with the key @id for what @digest stands for. */
static struct call_request keyed(struct fixture *f, enum kind kind, char id, char digest)
{
	struct call_request request = make_request(f, kind);

	request.options.key = TEXT_LITERAL("key");
	memset(request.key.id, id, sizeof(request.key.id));
	memset(request.key.digest, digest, sizeof(request.key.digest));
	return request;
}

/* Returns what becomes of a call: "run", "join", "replay", or the code of its refusal. */
static const char *arrival(struct fixture *f, char id, char digest)
{
	struct call_request request = keyed(f, COMMAND, id, digest);
	struct refusal refusal = {0};
	enum key_answer answer = keys_arrive(f->service.keys, &request, &refusal);
	const char *word = answer == KEY_RUN      ? "run"
			   : answer == KEY_JOIN   ? "join"
			   : answer == KEY_REPLAY ? "replay"
						  : tool_error_name(refusal.error);

	assert_int_equal(refusal.error == TOOL_BUSY, refusal.retry_after_ms > 0);
	refusal_done(&refusal);
	call_request_done(&request);
	return word;
}
