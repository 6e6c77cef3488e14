// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/call_result.h"

#include "common/limits.h"
#include "common/wire_files.h"
#include "supervisor/call/observation.h"

#include <errno.h>
#include <event2/buffer.h>

/* The largest case: a file of newlines only, each of them numbered. */
#define CONTENT_BYTES_MAX (LIMIT_READ_BYTES * 12)

static void begin_none(struct call_result *result)
{
	(void)result;
}

static void begin_content(struct call_result *result)
{
	if (result->base64)
		json_text_base64_begin(&result->json);
	else
		json_text_string_begin(&result->json);
}

static void begin_array(struct call_result *result)
{
	json_text_array_begin(&result->json);
}

static int add_none(struct call_result *result, const struct channel_frame *frame)
{
	(void)result;
	(void)frame;
	return -EBADMSG;
}

static int add_content(struct call_result *result, const struct channel_frame *frame)
{
	if (frame->type != FILES_DATA || frame->payload.len > CONTENT_BYTES_MAX - result->bytes ||
		call_result_size(result) > LIMIT_RESULT_BYTES)
		return -EBADMSG;
	result->bytes += frame->payload.len;
	if (result->dropped)
		return 0;
	if (result->base64)
		json_text_base64_part(&result->json, frame->payload);
	else
		json_text_string_part(&result->json, frame->payload);
	return 0;
}

/* Whether one more fits; counts it if so. */
static bool has_room(struct call_result *result, uint64_t max)
{
	if (result->dropped)
		return false;
	if (result->count >= max || evbuffer_get_length(result->items) > LIMIT_RESULT_BYTES) {
		result->cut = true;
		return false;
	}
	result->count++;
	return true;
}

static int add_entry(struct call_result *result, const struct channel_frame *frame)
{
	struct files_entry entry;

	if (frame->type != FILES_ENTRY || files_entry_get(frame->payload, &entry) < 0)
		return -EBADMSG;
	if (has_room(result, LIMIT_LIST_ENTRIES))
		observation_write_entry(&result->json, &entry);
	return 0;
}

static int add_match(struct call_result *result, const struct channel_frame *frame)
{
	struct files_match match;

	if (frame->type != FILES_MATCH || files_match_get(frame->payload, &match) < 0)
		return -EBADMSG;
	if (has_room(result, LIMIT_SEARCH_RESULTS))
		observation_write_match(&result->json, &match);
	return 0;
}

static void finish_none(struct call_result *result)
{
	(void)result;
}

static void finish_content(struct call_result *result)
{
	if (result->base64)
		json_text_base64_end(&result->json);
	else
		json_text_string_end(&result->json);
}

static void finish_array(struct call_result *result)
{
	json_text_array_end(&result->json);
}

static const struct {
	void (*begin)(struct call_result *result);
	int (*add)(struct call_result *result, const struct channel_frame *frame);
	void (*finish)(struct call_result *result);
} kinds[TOOL_COUNT] = {
	[TOOL_READ_FILE] = {begin_content, add_content, finish_content},
	[TOOL_WRITE_FILE] = {begin_none, add_none, finish_none},
	[TOOL_LIST_DIRECTORY] = {begin_array, add_entry, finish_array},
	[TOOL_SEARCH_FILES] = {begin_array, add_match, finish_array},
	[TOOL_RUN_COMMAND] = {begin_none, add_none, finish_none},
};

int call_result_begin(struct call_result *result, enum tool_id tool, bool base64)
{
	*result = (struct call_result){.tool = tool, .base64 = base64, .items = evbuffer_new()};
	if (!result->items)
		return -ENOMEM;
	result->json = json_text(result->items);
	kinds[tool].begin(result);
	return 0;
}

int call_result_add(struct call_result *result, const struct channel_frame *frame)
{
	int r = kinds[result->tool].add(result, frame);

	/* A failure shows at the end. Between writes the buffer must not hold reserved space. */
	(void)json_text_flush(&result->json);
	return r;
}

size_t call_result_size(const struct call_result *result)
{
	return result->items ? evbuffer_get_length(result->items) : 0;
}

void call_result_drop(struct call_result *result)
{
	result->dropped = true;
	if (result->items)
		evbuffer_drain(result->items, evbuffer_get_length(result->items));
}

int call_result_finish(struct call_result *result)
{
	kinds[result->tool].finish(result);
	return json_text_flush(&result->json);
}

const char *call_result_encoding(const struct call_result *result)
{
	if (result->base64)
		return "base64";
	return result->json.replaced > 0 ? "utf-8-replaced" : "utf-8";
}

void call_result_done(struct call_result *result)
{
	if (result->items)
		evbuffer_free(result->items);
	result->items = NULL;
}
