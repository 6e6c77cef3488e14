// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The results of calls with a key, which hostile processes have written. */
#include "supervisor/call/keys/call_kept.h"

#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/call/call_state.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation.h"

#include <errno.h>
#include <event2/buffer.h>

#define FRAME_BYTES  (4 * KIB) /* of a file call's observation besides its items */
#define STREAM_LEAST 256       /* with so little of each stream, every result fits */

static size_t length_of(struct evbuffer *buffer)
{
	return buffer ? evbuffer_get_length(buffer) : 0;
}

/* Copies @buffer, which may be NULL. Returns false if memory is out. */
static bool copy_kept_output(struct evbuffer *buffer, struct evbuffer **ret)
{
	const size_t len = length_of(buffer);
	const unsigned char *data = len > 0 ? evbuffer_pullup(buffer, -1) : NULL;

	if (!buffer)
		return true;
	*ret = evbuffer_new();
	return *ret && (len == 0 || (data && evbuffer_add(*ret, data, len) == 0));
}

void call_kept_copy(
	struct call_kept *kept, const struct call *call, const struct observation *observation)
{
	const size_t most = LIMIT_KEY_RESULT_BYTES - FRAME_BYTES;

	*kept = (struct call_kept){.wanted = call->key || !TAILQ_EMPTY(&call->joined)};
	if (!kept->wanted)
		return;
	/* An image is not kept: asked for again, it is read again. */
	kept->too_large = observation->image || length_of(observation->items) > most ||
			  length_of(observation->text) > most ||
			  !copy_kept_output(observation->items, &kept->items) ||
			  !copy_kept_output(observation->text, &kept->text) ||
			  !copy_kept_output(observation->data, &kept->data);
}

static void kept_done(struct call_kept *kept)
{
	if (kept->items)
		evbuffer_free(kept->items);
	if (kept->text)
		evbuffer_free(kept->text);
	if (kept->data)
		evbuffer_free(kept->data);
	*kept = (struct call_kept){0};
}

/*
 * Writes the result. Of a command's output head and tail are kept, as much as fits; its answer has
 * been sent.
 */
static int write_result(
	struct call *call, const struct observation *observation, struct key_result *ret)
{
	size_t bytes = LIMIT_KEY_RESULT_BYTES / 2;
	int r = model_text_keep(observation, LIMIT_KEY_RESULT_BYTES, ret);

	for (; r == -EMSGSIZE && call->io && bytes >= STREAM_LEAST; bytes /= 2) {
		command_io_shrink(call->io, bytes);
		r = model_text_keep(observation, LIMIT_KEY_RESULT_BYTES, ret);
	}
	return r;
}

/* Whether the call left its key free: nothing of it was begun, or it would be the same again. */
static bool is_as_new(const struct call_kept *kept, const struct call *call, enum call_state before,
	const struct observation *observation, int written)
{
	bool begun = before != CALL_WAITING && before != CALL_RECORDING &&
		     (!call_is_command(call) || call->io) && (!call->request.held || call->went);

	return !begun || call->is_gated || call->record_error < 0 ||
	       (observation->error == TOOL_BUSY && !call->made) ||
	       (!call_has_effects(call) && (kept->too_large || written < 0));
}

void call_kept_end(struct call_kept *kept, struct call *call, enum call_state before,
	const struct observation *observation, struct observation *ret_observation,
	struct key_result *ret_result)
{
	struct tool_args args = call->request.args;
	struct observation copy = *observation;
	int r;

	args.command = utf8_cut(args.command, LIMIT_KEY_COMMAND_BYTES);
	copy.args = &args;
	copy.items = kept->items;
	copy.text = kept->text;
	copy.data = kept->data;
	copy.image = NULL;
	copy.key_horizon_ms = 0;
	*ret_result = (struct key_result){0};
	r = kept->too_large ? -EMSGSIZE : write_result(call, &copy, ret_result);
	if (!call->key)
		;
	else if (is_as_new(kept, call, before, observation, r))
		key_leave(call->key);
	else if (r < 0 || (call->request.held && call->lost))
		key_lose(call->key);
	else
		key_end(call->key, ret_result);
	call->key = NULL;
	*ret_observation = (struct observation){.error = observation->error};
	if (r == 0)
		ret_observation->kept = ret_result;
	else
		*ret_observation = (struct observation){.error = TOOL_BUSY,
			.message =
				TEXT_LITERAL("The result of the call that this one had joined is "
					     "too large to be given twice; try again")};
	kept_done(kept);
}
