// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, on frames of the files process, which is hostile. */
#include "supervisor/call/result/patch_result.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/keys/key_change.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/journal/journal_record.h"

#include <assert.h>
#include <errno.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdlib.h>

#define NOTE_PATH_BYTES 200 /* of a path, in a note */

/* After enum files_state: the file is neither as before the patch nor as after it. */
#define STATE_OTHER (FILES_CHANGED + 1)

static_assert(LIMIT_PATCH_FILES * (FILES_FOUND_BYTES + 1) <= JOURNAL_CHANGE_BYTES,
	"what was found of each file fits a record of the journal");

struct patched {
	char *path, *from; /* from: NULL unless it is a move */
	size_t path_len, from_len;
	uint8_t operation, state;
	uint64_t added, removed;
	char version[FILES_VERSION_BYTES];
	size_t version_len;
	char found[FILES_FOUND_BYTES + 1];
};

struct patch_result {
	struct patched files[LIMIT_PATCH_FILES];
	size_t count;
	bool looked; /* the states are what was found there, and not what was done */
};

struct patch_result *patch_result_new(void)
{
	return calloc(1, sizeof(struct patch_result));
}

static void forget_patch_result(struct patch_result *result)
{
	for (size_t i = 0; i < result->count; i++) {
		free(result->files[i].path);
		free(result->files[i].from);
	}
	*result = (struct patch_result){0};
}

void patch_result_free(struct patch_result *result)
{
	if (result)
		forget_patch_result(result);
	free(result);
}

static char *copy_patch_path(struct text text)
{
	char *bytes = malloc(text.len + 1);

	if (bytes && text.len > 0)
		memcpy(bytes, text.data, text.len);
	return bytes;
}

/* The files come in order, and again from the first one on if the patch is tried once more. */
static int add_file(struct patch_result *result, const struct files_patched *message)
{
	struct patched *file;

	if (message->index == 0)
		forget_patch_result(result);
	if (message->index != result->count || message->path.len > LIMIT_PATH_BYTES ||
		message->from.len > LIMIT_PATH_BYTES)
		return -EBADMSG;
	file = &result->files[result->count];
	*file = (struct patched){.path = copy_patch_path(message->path),
		.from = copy_patch_path(message->from),
		.path_len = message->path.len,
		.from_len = message->from.len,
		.operation = message->operation,
		.added = message->added,
		.removed = message->removed,
		.version_len = message->version.len};
	if (message->version.len > 0)
		memcpy(file->version, message->version.data, message->version.len);
	if (message->found.len > 0)
		memcpy(file->found, message->found.data, message->found.len);
	result->count++;
	if (!file->path || !file->from)
		return -EBADMSG; /* memory is out: the call ends with its process */
	return 0;
}

int patch_result_add(struct patch_result *result, const struct channel_frame *frame)
{
	struct files_patched file;
	struct files_step step;

	if (frame->type == FILES_PATCHED)
		return files_patched_get(frame->payload, &file) == 0 ? add_file(result, &file)
								     : -EBADMSG;
	if (frame->type != FILES_STEP || files_step_get(frame->payload, &step) < 0 ||
		step.index >= result->count)
		return -EBADMSG;
	result->files[step.index].state = step.state;
	return 0;
}

size_t patch_result_size(const struct patch_result *result)
{
	size_t size = sizeof(*result);

	for (size_t i = 0; i < result->count; i++)
		size += result->files[i].path_len + result->files[i].from_len;
	return size;
}

static struct text path_of(const struct patched *file)
{
	return (struct text){file->path, file->path_len};
}

static const char *operation_name(const struct patched *file)
{
	static const char *const names[] = {[FILES_ADD] = "add",
		[FILES_UPDATE] = "update",
		[FILES_DELETE] = "delete",
		[FILES_MOVE] = "move"};

	return names[file->operation];
}

static void write_file(const struct patched *file, struct json_text *json)
{
	json_text_object_begin(json);
	observation_write_path(json, path_of(file));
	json_text_put(json, "op", operation_name(file));
	if (file->operation == FILES_MOVE) {
		json_text_put_text(json, "old_path", (struct text){file->from, file->from_len});
	}
	json_text_put_uint64(json, "added", file->added);
	json_text_put_uint64(json, "removed", file->removed);
	if (file->version_len > 0) {
		json_text_put_text(
			json, "version", (struct text){file->version, file->version_len});
	}
	json_text_object_end(json);
}

static bool write_line(const struct patched *file, struct evbuffer *text)
{
	if (evbuffer_add_printf(text, "%s ", operation_name(file)) < 0)
		return false;
	if (file->operation == FILES_MOVE && (evbuffer_add(text, file->from, file->from_len) < 0 ||
						     evbuffer_add(text, " to ", 4) < 0))
		return false;
	return evbuffer_add(text, file->path, file->path_len) == 0 &&
	       evbuffer_add_printf(
		       text, " (+%" PRIu64 " -%" PRIu64 ")\n", file->added, file->removed) >= 0;
}

void patch_result_write(
	const struct patch_result *result, struct json_text *json, struct evbuffer *text)
{
	json_text_array_begin(json);
	for (size_t i = 0; i < result->count; i++) {
		write_file(&result->files[i], json);
		if (text && !write_line(&result->files[i], text))
			json->failed = true;
	}
	json_text_array_end(json);
}

bool patch_result_is_partial(const struct patch_result *result)
{
	for (size_t i = 0; i < result->count; i++)
		if (result->files[i].state != FILES_UNCHANGED)
			return true;
	return false;
}

static const char *state_name(uint8_t state)
{
	static const char *const names[] = {[FILES_UNCHANGED] = "unchanged",
		[FILES_BEGUN] = "unknown",
		[FILES_CHANGED] = "changed",
		[STATE_OTHER] = "other"};

	return names[state];
}

int patch_result_write_states(const struct patch_result *result, struct evbuffer *out)
{
	struct json_text json = json_text(out);

	json_text_object_begin(&json);
	json_text_put_array(&json, "files");
	for (size_t i = 0; i < result->count; i++) {
		json_text_object_begin(&json);
		observation_write_path(&json, path_of(&result->files[i]));
		json_text_put(&json, "op", operation_name(&result->files[i]));
		json_text_put(&json, "state", state_name(result->files[i].state));
		json_text_object_end(&json);
	}
	json_text_array_end(&json);
	json_text_object_end(&json);
	return json_text_flush(&json);
}

/* Writes to @at where there is one, and returns what comes behind it. */
static char *put_patch_text(char *at, struct text text)
{
	if (text.len > 0)
		memcpy(at, text.data, text.len);
	return at + text.len;
}

static struct text version_after(const struct patched *file)
{
	return file->operation == FILES_DELETE ? TEXT_LITERAL("absent")
					       : (struct text){file->version, file->version_len};
}

struct key_change *patch_result_change(const struct patch_result *result)
{
	char before[LIMIT_PATCH_FILES * sizeof(result->files->found)],
		after[LIMIT_PATCH_FILES * sizeof(result->files->found)];
	char *before_end = before, *after_end = after;

	for (size_t i = 0; i < result->count; i++) {
		const struct patched *file = &result->files[i];

		if (i > 0) {
			before_end = put_patch_text(before_end, TEXT_LITERAL(" "));
			after_end = put_patch_text(after_end, TEXT_LITERAL(" "));
		}
		before_end = put_patch_text(before_end, text_from(file->found));
		if (file->operation == FILES_MOVE)
			after_end = put_patch_text(after_end, TEXT_LITERAL("absent/"));
		after_end = put_patch_text(after_end, version_after(file));
	}
	if (result->count == 0)
		return NULL;
	return key_change_new((struct text){before, (size_t)(before_end - before)},
		(struct text){after, (size_t)(after_end - after)});
}

void patch_result_set_made(struct patch_result *result, const struct key_change *change)
{
	for (size_t i = 0; i < result->count; i++) {
		struct patched *file = &result->files[i];
		struct text version = key_change_version(change->after, i);

		if (file->operation == FILES_MOVE)
			(void)text_take(&version, '/');
		file->version_len = 0;
		if (file->operation == FILES_DELETE || version.len > sizeof(file->version))
			continue;
		put_patch_text(file->version, version);
		file->version_len = version.len;
	}
}

void patch_result_set_found(
	struct patch_result *result, const struct key_change *change, const char *found)
{
	result->looked = true;
	for (size_t i = 0; i < result->count; i++) {
		unsigned like = key_change_compare(change, found, i);

		result->files[i].state = (like & KEY_CHANGE_AFTER)    ? FILES_CHANGED
					 : (like & KEY_CHANGE_BEFORE) ? FILES_UNCHANGED
								      : STATE_OTHER;
	}
}

static size_t count_patch_state(const struct patch_result *result, uint8_t state)
{
	size_t n = 0;

	for (size_t i = 0; i < result->count; i++)
		n += result->files[i].state == state;
	return n;
}

/* Adds a sentence with the path of each file in @state. */
static void note_files(const struct patch_result *result, struct notes *notes, uint8_t state,
	const char *before, const char *after)
{
	for (size_t i = 0; i < result->count; i++)
		if (result->files[i].state == state)
			notes_add(notes, "%s\"%.*s\"%s", before,
				(int)(result->files[i].path_len < NOTE_PATH_BYTES
						? result->files[i].path_len
						: NOTE_PATH_BYTES),
				result->files[i].path, after);
}

void patch_result_note(const struct patch_result *result, struct notes *notes)
{
	if (!patch_result_is_partial(result)) {
		notes_add(notes, "Nothing of the patch was done");
		return;
	}
	if (result->looked) {
		notes_add(notes,
			"Of the patch's %zu files %zu are as the patch makes them, and %zu are as "
			"before it; read them before you go on",
			result->count, count_patch_state(result, FILES_CHANGED),
			count_patch_state(result, FILES_UNCHANGED));
		note_files(result, notes, STATE_OTHER, "",
			" is neither as before the patch nor as the patch makes it");
		if (count_patch_state(result, STATE_OTHER) == 0)
			note_files(result, notes, FILES_UNCHANGED, "", " is as before the patch");
		return;
	}
	notes_add(notes,
		"Of the patch's %zu files %zu have been changed, in its order; read them before "
		"you go on",
		result->count, count_patch_state(result, FILES_CHANGED));
	note_files(result, notes, FILES_BEGUN, "It is not known whether ",
		" has been changed; read it");
}
