// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/call/result/call_result.h"

#include "common/cleanup.h"
#include "common/image_types.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/model_text.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/call/result/patch_result.h"

#include <errno.h>
#include <event2/buffer.h>

/* The largest case: a file of newlines only, each of them numbered. */
#define CONTENT_BYTES_MAX (LIMIT_READ_BYTES * 12)

/* More than a line, and the object, of an entry or match has beside its texts. */
#define ITEM_LINE_BYTES   32
#define ITEM_OBJECT_BYTES 144

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

/* Puts a piece of the content that is shown. */
static void put_shown(void *context, struct text piece, bool padding)
{
	struct call_result *result = context;

	json_text_string_part(&result->json, piece);
	if (!padding && evbuffer_add(result->text, piece.data, piece.len) < 0)
		result->json.failed = true;
}

/* Takes a part of an image, which the files process sends only if it was asked for one. */
static int add_image(struct call_result *result, struct text part)
{
	/* It may have sent more than that as content. */
	if (!result->request->shown.images || result->bytes > LIMIT_IMAGE_BYTES ||
		part.len > LIMIT_IMAGE_BYTES - result->bytes)
		return -EBADMSG;
	result->bytes += part.len;
	if (result->dropped)
		return 0;
	if (!result->image) {
		result->image = evbuffer_new();
		if (!result->image)
			return 0; /* the answer has the type and the size of it */
		result->image_json = json_text(result->image);
		json_text_base64_begin(&result->image_json);
	}
	json_text_base64_part(&result->image_json, part);
	(void)json_text_flush(&result->image_json);
	return 0;
}

/* With options.max_output a program gets so many bytes. */
static struct text cut_bytes(struct call_result *result, struct text part)
{
	uint64_t max = result->request->shown.bytes, room;

	if (max == 0)
		return part;
	room = max > result->count ? max - result->count : 0;
	if (part.len > room) {
		part.len = (size_t)room;
		result->cut = true;
	}
	result->count += part.len;
	return part;
}

static int add_content(struct call_result *result, const struct channel_frame *frame)
{
	if (frame->type == FILES_IMAGE)
		return add_image(result, frame->payload);
	if (frame->type != FILES_DATA || frame->payload.len > CONTENT_BYTES_MAX - result->bytes ||
		call_result_size(result) > LIMIT_RESULT_BYTES)
		return -EBADMSG;
	result->bytes += frame->payload.len;
	if (result->dropped)
		return 0;
	if (result->base64)
		json_text_base64_part(&result->json, cut_bytes(result, frame->payload));
	else if (result->text)
		content_cut_add(&result->content, frame->payload);
	else
		json_text_string_part(&result->json, frame->payload);
	return 0;
}

/*
 * Returns how many bytes an entry or match takes of an answer to a model, beside @texts: of its
 * line or, if it has both, of that and of its object.
 */
static uint64_t item_cost(const struct call_result *result, const struct text texts[static 2])
{
	const struct shown *shown = &result->request->shown;
	uint64_t cost = shown->both ? ITEM_OBJECT_BYTES : ITEM_LINE_BYTES;

	if (!result->text)
		return 0;
	for (size_t i = 0; i < 2; i++)
		cost += shown_cost(shown, texts[i]);
	if (shown->both && !utf8_is_valid(texts[0])) /* it has path_base64 */
		cost += texts[0].len * 3 / 2;
	return cost;
}

/* Whether one more item, which takes @cost, fits. Counts it if so. */
static bool result_has_room(struct call_result *result, uint64_t max, uint64_t cost)
{
	const struct shown *shown = &result->request->shown;

	if (result->dropped)
		return false;
	result->total++;
	if (result->text)
		result->cut |= result->count >= shown->entries ||
			       evbuffer_get_length(result->text) >= shown->bytes ||
			       result->sent + cost > result->sent_max;
	if (result->count >= max || evbuffer_get_length(result->items) > LIMIT_RESULT_BYTES)
		result->cut = true;
	if (result->cut)
		return false;
	result->count++;
	result->sent += cost;
	return true;
}

/* Whether a line around a match, which takes @cost, fits. It is not counted. */
static bool has_room_around(struct call_result *result, uint64_t cost)
{
	result->cut |= result->sent + cost > result->sent_max ||
		       evbuffer_get_length(result->items) > LIMIT_RESULT_BYTES;
	if (result->dropped || result->cut)
		return false;
	result->sent += cost;
	return true;
}

static int add_entry(struct call_result *result, const struct channel_frame *frame)
{
	struct files_entry entry;

	if (frame->type != FILES_ENTRY || files_entry_get(frame->payload, &entry) < 0)
		return -EBADMSG;
	if (!result_has_room(result, LIMIT_LIST_ENTRIES,
		    item_cost(result, (const struct text[2]){entry.path, entry.target})))
		return 0;
	observation_write_entry(&result->json, &entry);
	if (result->text &&
		!model_text_entry(result->text, &entry, !result->request->args.recursive))
		result->json.failed = true;
	return 0;
}

static int add_node(struct call_result *result, const struct channel_frame *frame)
{
	struct files_node node;

	if (frame->type != FILES_NODE || files_node_get(frame->payload, &node) < 0)
		return -EBADMSG;
	if (result_has_room(result, LIMIT_LIST_ENTRIES, 0))
		observation_write_node(&result->json, &node);
	return 0;
}

/* Of the one entry that a method acts on. */
static int add_one_node(struct call_result *result, const struct channel_frame *frame)
{
	return result->total > 0 ? -EBADMSG : add_node(result, frame);
}

static int add_match(struct call_result *result, const struct channel_frame *frame)
{
	struct files_match match;
	uint64_t cost;

	if (frame->type != FILES_MATCH || files_match_get(frame->payload, &match) < 0)
		return -EBADMSG;
	cost = item_cost(result, (const struct text[2]){match.path, match.text});
	if (match.context ? !has_room_around(result, cost)
			  : !result_has_room(result,
				    (uint64_t)tool_search_most(&result->request->args), cost))
		return 0;
	observation_write_match(&result->json, &match);
	if (result->text && !model_text_match(result->text, &match))
		result->json.failed = true;
	return 0;
}

/* Takes the diff of an edit, or why it was not made. */
static int add_edit(struct call_result *result, const struct channel_frame *frame)
{
	struct files_trouble trouble;

	if (frame->type == FILES_TROUBLE && !result->data &&
		files_trouble_get(frame->payload, &trouble) == 0) {
		result->data = evbuffer_new();
		if (!result->data || result->dropped)
			return 0; /* the sentence says the same */
		return observation_write_trouble(result->data, &trouble);
	}
	if (frame->type != FILES_DATA || frame->payload.len > LIMIT_EDIT_DIFF - result->bytes)
		return -EBADMSG;
	result->bytes += frame->payload.len;
	if (result->dropped)
		return 0;
	json_text_string_part(&result->json, frame->payload);
	if (result->text && evbuffer_add(result->text, frame->payload.data, frame->payload.len) < 0)
		result->json.failed = true;
	return 0;
}

/* Closes the object of the last change. */
static void end_change(struct call_result *result)
{
	if (result->in_patch)
		json_text_string_end(&result->json);
	if (result->in_change)
		json_text_object_end(&result->json);
	result->in_patch = result->in_change = false;
}

/* Takes a part of the patch of the last change. */
static int add_change_patch(struct call_result *result, struct text part)
{
	if (!result->request->args.as_patch || part.len > LIMIT_DIFF_PATCH_BYTES - result->bytes)
		return -EBADMSG;
	result->bytes += part.len;
	if (result->dropped || !result->in_change)
		return 0;
	if (!result->in_patch) {
		json_text_key(&result->json, "patch");
		json_text_string_begin(&result->json);
	}
	result->in_patch = true;
	json_text_string_part(&result->json, part);
	return 0;
}

static int add_change(struct call_result *result, const struct channel_frame *frame)
{
	struct files_change change;

	if (frame->type == FILES_DATA)
		return add_change_patch(result, frame->payload);
	if (frame->type == FILES_TOTALS)
		return files_totals_get(frame->payload, &result->totals);
	if (frame->type != FILES_CHANGE || files_change_get(frame->payload, &change) < 0)
		return -EBADMSG;
	if (!result->dropped)
		end_change(result);
	if (!result_has_room(result, LIMIT_DIFF_CHANGES, 0))
		return 0;
	observation_write_change(&result->json, &change);
	result->in_change = true;
	return 0;
}

static void begin_patch(struct call_result *result)
{
	result->patch = patch_result_new();
}

/* Takes what a patch is about to do, how far it is, or why it was not made. */
static int add_patch(struct call_result *result, const struct channel_frame *frame)
{
	if (frame->type == FILES_TROUBLE)
		return add_edit(result, frame);
	return patch_result_add(result->patch, frame);
}

static void finish_patch(struct call_result *result)
{
	if (!result->dropped)
		patch_result_write(result->patch, &result->json, result->text);
}

static void finish_none(struct call_result *result)
{
	(void)result;
}

static void finish_content(struct call_result *result)
{
	if (result->text)
		content_cut_end(&result->content);
	if (result->base64)
		json_text_base64_end(&result->json);
	else
		json_text_string_end(&result->json);
}

static void finish_edit(struct call_result *result)
{
	json_text_string_end(&result->json);
}

static void finish_array(struct call_result *result)
{
	json_text_array_end(&result->json);
}

static void finish_changes(struct call_result *result)
{
	if (!result->dropped)
		end_change(result);
	json_text_array_end(&result->json);
}

static const struct {
	void (*begin)(struct call_result *result);
	int (*add)(struct call_result *result, const struct channel_frame *frame);
	void (*finish)(struct call_result *result);
} kinds[TOOL_KINDS] = {
	[TOOL_READ_FILE] = {begin_content, add_content, finish_content},
	[TOOL_WRITE_FILE] = {begin_none, add_none, finish_none},
	[TOOL_LIST_DIRECTORY] = {begin_array, add_entry, finish_array},
	[TOOL_SEARCH_FILES] = {begin_array, add_match, finish_array},
	[TOOL_RUN_COMMAND] = {begin_none, add_none, finish_none},
	[TOOL_EDIT_FILE] = {begin_content, add_edit, finish_edit},
	[TOOL_APPLY_PATCH] = {begin_patch, add_patch, finish_patch},
	[TOOL_DIFF] = {begin_array, add_change, finish_changes},
	[TOOL_FILE_STAT] = {begin_none, add_one_node, finish_none},
	[TOOL_FILE_LIST] = {begin_array, add_node, finish_array},
	[TOOL_FILE_MAKE_DIRECTORY] = {begin_none, add_one_node, finish_none},
	[TOOL_FILE_MOVE] = {begin_none, add_one_node, finish_none},
	[TOOL_FILE_REMOVE] = {begin_none, add_none, finish_none},
	[TOOL_FILE_READ] = {begin_none, add_one_node, finish_none},
	[TOOL_FILE_WRITE] = {begin_none, add_none, finish_none},
	[TOOL_FILE_WATCH] = {begin_none, add_none, finish_none},
};

int call_result_begin(struct call_result *result, const struct call_request *request)
{
	const struct shown *shown = &request->shown;

	*result = (struct call_result){.request = request,
		.tool = request->tool->id,
		.base64 = request->options.base64,
		.items = evbuffer_new(),
		.text = shown->text ? evbuffer_new() : NULL,
		.sent_max = shown_left(shown, &request->notes)};
	if (!result->items || (shown->text && !result->text))
		return -ENOMEM;
	result->json = json_text(result->items);
	result->content = (struct content_cut){.lines_max = shown->lines,
		.bytes_max = shown->sent == UINT64_MAX ? shown->bytes : UINT64_MAX,
		.sent_max = shown->sent == UINT64_MAX ? 0 : result->sent_max,
		.both = shown->both,
		.line_max = shown->line,
		.numbered = shown->numbered,
		.put = put_shown,
		.context = result};
	kinds[result->tool].begin(result);
	return result->tool == TOOL_APPLY_PATCH && !result->patch ? -ENOMEM : 0;
}

int call_result_add(struct call_result *result, const struct channel_frame *frame)
{
	int r = kinds[result->tool].add(result, frame);

	/* json_text remembers a failure. The flush releases reserved space in the buffer. */
	(void)json_text_flush(&result->json);
	return r;
}

static size_t size_of(const struct evbuffer *buffer)
{
	return buffer ? evbuffer_get_length(buffer) : 0;
}

size_t call_result_size(const struct call_result *result)
{
	return size_of(result->items) + size_of(result->text) + size_of(result->image) +
	       size_of(result->data) + (result->patch ? patch_result_size(result->patch) : 0);
}

static void empty(struct evbuffer *buffer)
{
	if (buffer)
		evbuffer_drain(buffer, evbuffer_get_length(buffer));
}

void call_result_drop(struct call_result *result)
{
	result->dropped = true;
	empty(result->items);
	empty(result->text);
	empty(result->image);
	empty(result->data);
}

void call_result_forget(struct call_result *result)
{
	call_result_drop(result);
	patch_result_free(TAKE_PTR(result->patch));
}

int call_result_finish(struct call_result *result)
{
	kinds[result->tool].finish(result);
	if (result->image) {
		json_text_base64_end(&result->image_json);
		if (json_text_flush(&result->image_json) < 0)
			return -ENOMEM;
	}
	return json_text_flush(&result->json);
}

static const char *encoding_of(const struct call_result *result)
{
	if (result->base64)
		return "base64";
	return result->json.replaced > 0 ? "utf-8-replaced" : "utf-8";
}

/* Reports how much of the content is shown, which may be less than the files process sent. */
static void tell_content(
	const struct call_result *result, struct files_end *end, struct observation *observation)
{
	const struct content_cut *content = &result->content;

	if (!result->text || end->binary)
		return;
	end->lines = content->lines;
	end->truncated |= content->over || content->lines_cut;
	observation->cut = content->over;
	observation->lines_cut = content->lines_cut;
}

/* Replaces the error's data by the state of each file, where a patch has changed some. */
static void tell_states(struct call_result *result, struct observation *observation)
{
	if (!result->patch || !patch_result_is_partial(result->patch))
		return;
	if (!result->data)
		result->data = evbuffer_new();
	if (!result->data)
		return; /* the sentence says it */
	evbuffer_drain(result->data, evbuffer_get_length(result->data));
	if (patch_result_write_states(result->patch, result->data) == 0)
		observation->data = result->data;
}

void call_result_tell(
	struct call_result *result, struct files_end *end, struct observation *observation)
{
	observation->items = result->items;
	observation->text = result->text;
	observation->data = result->data;
	observation->image = end->binary && image_type_is_shown(end->type) ? result->image : NULL;
	observation->encoding = encoding_of(result);
	observation->total = result->total;
	observation->totals = result->tool == TOOL_DIFF ? &result->totals : NULL;
	observation->more = end->truncated;
	end->truncated |= result->cut;
	if (result->tool == TOOL_READ_FILE)
		tell_content(result, end, observation);
	else if (result->cut)
		end->count = result->count;
	if (end->error != TOOL_OK)
		tell_states(result, observation);
}

void call_result_tell_lost(
	struct call_result *result, struct notes *notes, struct observation *observation)
{
	if (!result->patch)
		return;
	patch_result_note(result->patch, notes);
	tell_states(result, observation);
}

static void release_result_buffer(struct evbuffer **buffer)
{
	if (*buffer)
		evbuffer_free(*buffer);
	*buffer = NULL;
}

void call_result_done(struct call_result *result)
{
	release_result_buffer(&result->items);
	release_result_buffer(&result->text);
	release_result_buffer(&result->image);
	release_result_buffer(&result->data);
	if (result->patch)
		patch_result_free(TAKE_PTR(result->patch));
}
