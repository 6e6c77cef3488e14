// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. Texts in results are hostile bytes; json_text makes valid JSON of any bytes.
 */
#include "supervisor/call/result/observation_json.h"

#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/json_escape.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/call_network.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/file_note.h"
#include "supervisor/call/result/shown.h"
#include "supervisor/call/result/stream_shown.h"
#include "supervisor/schedule/usage.h"

#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void observation_write_path(struct json_text *json, struct text path)
{
	json_text_raw_key(json, TEXT_LITERAL("\"path\":"));
	json_text_string(json, path);
	if (utf8_is_valid(path) && (path.len == 0 || !memchr(path.data, '\\', path.len)))
		return;
	json_text_key(json, "path_base64");
	json_text_base64_begin(json);
	json_text_base64_part(json, path);
	json_text_base64_end(json);
}

static void put_digits(char *end, unsigned digits, unsigned value)
{
	for (; digits > 0; digits--, value /= 10)
		*--end = (char)('0' + value % 10);
}

/*
 * Writes a time by RFC 3339, in UTC with milliseconds. The date is cached, because the files of a
 * directory are often of the same day.
 */
static void put_time(struct json_text *json, uint64_t nanoseconds)
{
	static char date[32]; /* "2006-01-02T" of @day */
	static uint64_t day = UINT64_MAX;
	static size_t date_len;
	uint64_t milliseconds = nanoseconds / 1000000, now = milliseconds / 86400000;
	unsigned rest = (unsigned)(milliseconds % 86400000);
	char text[sizeof(date) + sizeof("\"00:00:00.000Z\"")] = "\"", *clock = text + 1;
	struct tm tm;

	if (now != day) {
		time_t midnight = (time_t)(now * 86400);

		day = now;
		date_len = gmtime_r(&midnight, &tm) ? strftime(date, sizeof(date), "%Y-%m-%dT", &tm)
						    : 0;
	}
	clock = mempcpy(clock, date, date_len);
	memcpy(clock, "00:00:00.000Z\"", sizeof("00:00:00.000Z\""));
	put_digits(clock + 2, 2, rest / 3600000);
	put_digits(clock + 5, 2, rest / 60000 % 60);
	put_digits(clock + 8, 2, rest / 1000 % 60);
	put_digits(clock + 12, 3, rest % 1000);
	json_text_raw(json, (struct text){text, 1 + date_len + sizeof("00:00:00.000Z\"") - 1});
}

static const char *type_name(uint8_t type)
{
	static const char *const names[] = {
		[FILES_TYPE_FILE] = "file",
		[FILES_TYPE_DIRECTORY] = "directory",
		[FILES_TYPE_SYMLINK] = "symlink",
		[FILES_TYPE_FIFO] = "fifo",
		[FILES_TYPE_SOCKET] = "socket",
		[FILES_TYPE_CHARACTER_DEVICE] = "character_device",
		[FILES_TYPE_BLOCK_DEVICE] = "block_device",
		[FILES_TYPE_UNKNOWN] = "unknown",
	};

	return type < ARRAY_SIZE(names) && names[type] ? names[type] : "unknown";
}

void observation_write_entry(struct json_text *json, const struct files_entry *entry)
{
	json_text_object_begin(json);
	observation_write_path(json, entry->path);
	json_text_raw_key(json, TEXT_LITERAL("\"type\":"));
	json_text_string(json, text_from(type_name(entry->type)));
	json_text_raw_key(json, TEXT_LITERAL("\"size\":"));
	json_text_uint64(json, entry->size);
	json_text_raw_key(json, TEXT_LITERAL("\"mtime\":"));
	put_time(json, entry->mtime_ns);
	if (entry->type == FILES_TYPE_SYMLINK)
		json_text_put_text(json, "target", entry->target);
	if (entry->left_out > 0)
		json_text_put_uint64(json, "entries_left_out", entry->left_out);
	json_text_object_end(json);
}

/* Writes the attributes as an object of texts, or of base64 where one is no text. */
static void put_attributes(struct json_text *json, struct text attributes)
{
	struct text left = attributes, name, value;

	json_text_put_object(json, "attributes");
	while (files_attribute_next(&left, &name, &value)) {
		if (!utf8_is_valid(name) || !utf8_is_valid(value))
			continue;
		json_text_key_of(json, name);
		json_text_string(json, value);
	}
	json_text_object_end(json);
	left = attributes;
	json_text_put_object(json, "attributes_base64");
	while (files_attribute_next(&left, &name, &value)) {
		if (!utf8_is_valid(name) || utf8_is_valid(value))
			continue;
		json_text_key_of(json, name);
		json_text_base64_begin(json);
		json_text_base64_part(json, value);
		json_text_base64_end(json);
	}
	json_text_object_end(json);
}

static void put_name(struct json_text *json, const char *key, struct text name)
{
	json_text_key(json, key);
	if (name.len > 0)
		json_text_string(json, name);
	else
		json_text_null(json);
}

void observation_write_node(struct json_text *json, const struct files_node *node)
{
	const struct files_entry *entry = &node->entry;
	char mode[sizeof("37777777777")];

	snprintf(mode, sizeof(mode), "%04o", node->mode);
	json_text_object_begin(json);
	observation_write_path(json, entry->path);
	json_text_put_text(json, "type", text_from(type_name(entry->type)));
	json_text_put_uint64(json, "size", entry->size);
	json_text_key(json, "mtime");
	put_time(json, entry->mtime_ns);
	json_text_put_uint64(json, "mtime_ns", entry->mtime_ns);
	json_text_put_text(json, "mode", text_from(mode));
	json_text_put_uint64(json, "uid", node->uid);
	json_text_put_uint64(json, "gid", node->gid);
	put_name(json, "owner", node->owner);
	put_name(json, "group", node->group);
	json_text_put_uint64(json, "links", node->links);
	if (entry->type == FILES_TYPE_SYMLINK)
		json_text_put_text(json, "target", entry->target);
	if (node->attributes.len > 0)
		put_attributes(json, node->attributes);
	if (node->attributes_cut)
		json_text_put_bool(json, "attributes_cut", true);
	json_text_object_end(json);
}

static void put_state(struct json_text *json, const char *key, const struct files_state_of *state)
{
	char mode[sizeof("37777777777")];

	json_text_key(json, key);
	if (state->type == 0) {
		json_text_null(json);
		return;
	}
	snprintf(mode, sizeof(mode), "%04o", state->mode);
	json_text_object_begin(json);
	json_text_put_text(json, "type", text_from(type_name(state->type)));
	json_text_put_uint64(json, "size", state->size);
	json_text_put_text(json, "mode", text_from(mode));
	json_text_object_end(json);
}

void observation_write_change(struct json_text *json, const struct files_change *change)
{
	const char *kind = change->before.type == 0  ? "added"
			   : change->after.type == 0 ? "deleted"
						     : "changed";

	json_text_object_begin(json);
	observation_write_path(json, change->path);
	json_text_put_text(json, "change", text_from(kind));
	put_state(json, "before", &change->before);
	put_state(json, "after", &change->after);
}

void observation_write_match(struct json_text *json, const struct files_match *match)
{
	json_text_object_begin(json);
	observation_write_path(json, match->path);
	json_text_put_uint64(json, "line", match->line);
	json_text_put_text(json, "text", match->text);
	if (match->cut)
		json_text_put_bool(json, "cut", true);
	if (match->context)
		json_text_put_bool(json, "context", true);
	json_text_object_end(json);
}

int observation_write_trouble(struct evbuffer *out, const struct files_trouble *trouble)
{
	struct json_text json = json_text(out);

	json_text_object_begin(&json);
	if (trouble->file.len > 0)
		json_text_put_text(&json, "file", trouble->file);
	if (trouble->file.len == 0 || trouble->edit > 0)
		json_text_put_uint64(&json, trouble->file.len > 0 ? "hunk" : "edit", trouble->edit);
	json_text_put_text(&json, "kind", trouble->kind);
	json_text_put_array(&json, "lines");
	for (uint32_t i = 0; i < trouble->n_lines; i++)
		json_text_uint64(&json, trouble->lines[i]);
	json_text_array_end(&json);
	if (trouble->closest.len > 0)
		json_text_put_text(&json, "closest", trouble->closest);
	json_text_object_end(&json);
	return json_text_flush(&json);
}

/* Writes the collected JSON as the value of @key, by moving it. */
static void put_items(
	struct json_text *json, const char *key, const struct observation *observation)
{
	json_text_put_taken(json, key, observation->items);
}

/* Says what is not shown. */
static void put_note(struct json_text *json, const struct observation *observation)
{
	char buffer[FILE_NOTE_SIZE];

	if (*file_note(observation, buffer, sizeof(buffer)))
		json_text_put_text(json, "note", text_from(buffer));
}

/* Writes how many entries or matches came, where fewer are shown. */
static void put_total(struct json_text *json, const struct observation *observation)
{
	if (observation->shown && observation->total > observation->files->count)
		json_text_put_uint64(json, "total", observation->total);
	put_note(json, observation);
}

/* Writes how many entries git ignores, unless there are none. */
static void put_ignored(struct json_text *json, const struct observation *observation)
{
	if (observation->files->ignored > 0)
		json_text_put_uint64(json, "gitignored", observation->files->ignored);
}

static void put_version(struct json_text *json, const struct files_end *end)
{
	if (end->version.len > 0)
		json_text_put_text(json, "version", end->version);
}

static void write_read_file(struct json_text *json, const struct observation *observation)
{
	const struct files_end *end = observation->files;

	observation_write_path(json, end->path);
	if (end->binary) {
		json_text_put_bool(json, "binary", true);
		json_text_put_uint64(json, "size", end->size);
		json_text_put_text(json, "type", end->type);
		put_note(json, observation);
		return;
	}
	put_items(json, "content", observation);
	json_text_put_uint64(json, "lines", end->lines);
	json_text_key(json, "total_lines");
	/* The files process does not read a large file to its end to count its lines. */
	if (end->total_lines == 0 && end->size > 0 && end->truncated)
		json_text_null(json);
	else
		json_text_uint64(json, end->total_lines);
	json_text_put_uint64(json, "size", end->size);
	json_text_put_bool(json, "truncated", end->truncated);
	json_text_put_text(json, "encoding", text_from(observation->encoding));
	put_version(json, end);
	put_note(json, observation);
}

static void write_write_file(struct json_text *json, const struct observation *observation)
{
	observation_write_path(json, observation->files->path);
	json_text_put_uint64(json, "bytes_written", observation->files->size);
	json_text_put_bool(json, "created", observation->files->created);
	put_version(json, observation->files);
}

static void write_edit_file(struct json_text *json, const struct observation *observation)
{
	const struct files_end *end = observation->files;

	observation_write_path(json, end->path);
	json_text_put_uint64(json, "replacements", end->count);
	json_text_put_uint64(json, "first_line", end->first_line);
	json_text_put_uint64(json, "size", end->size);
	json_text_put_text(json, "version", end->version);
	put_items(json, "diff", observation);
}

static void write_apply_patch(struct json_text *json, const struct observation *observation)
{
	put_items(json, "files", observation);
}

static void write_list_directory(struct json_text *json, const struct observation *observation)
{
	observation_write_path(json, observation->files->path);
	put_items(json, "entries", observation);
	json_text_put_uint64(json, "count", observation->files->count);
	json_text_put_bool(json, "truncated", observation->files->truncated);
	put_ignored(json, observation);
	put_total(json, observation);
}

static void write_search_files(struct json_text *json, const struct observation *observation)
{
	json_text_put_text(
		json, "pattern", observation_word(observation, observation->args->pattern));
	put_items(json, "matches", observation);
	json_text_put_uint64(json, "count", observation->files->count);
	json_text_put_bool(json, "truncated", observation->files->truncated);
	json_text_put_uint64(json, "files_searched", observation->files->files_searched);
	json_text_put_uint64(json, "files_skipped", observation->files->files_skipped);
	put_ignored(json, observation);
	put_total(json, observation);
}

static void put_ending(struct json_text *json, const struct observation *observation)
{
	char name[32];
	int code;

	json_text_key(json, "exit_code");
	if (observation_exit(observation, &code))
		json_text_int64(json, code);
	else
		json_text_null(json);
	json_text_put(json, "signal", observation_signal(observation, name, sizeof(name)));
}

struct text observation_word(const struct observation *observation, struct text word)
{
	return observation->shown && observation->shown->sent < UINT64_MAX
		       ? utf8_cut(word, LIMIT_SHOWN_WORD_BYTES)
		       : word;
}

void observation_rooms(
	const struct observation *observation, struct stream_room ret_rooms[static COMMAND_STREAMS])
{
	const struct shown *shown = observation->shown;
	struct stream_room room = {shown_left(shown, observation->notes), shown->lines};
	struct stream_room needs[COMMAND_STREAMS];
	uint64_t rest = 0;

	for (size_t i = 0; i < COMMAND_STREAMS; i++) {
		needs[i] = stream_shown_need(command_io_capture(observation->io, i));
		rest += STREAM_SHOWN_MARK_SIZE;
	}
	if (shown->both) {
		rest += rest + json_escaped_size(
				       observation_word(observation, observation->args->command));
	}
	if (room.sent < UINT64_MAX)
		room.sent = (room.sent > rest ? room.sent - rest : 0) / (shown->both ? 2 : 1);
	stream_shown_divide(room, needs, ret_rooms);
}

/* Writes a stream. Returns whether something of it is left out. */
static bool put_stream(struct json_text *json, const char *key,
	const struct observation *observation, enum command_stream stream)
{
	const struct stream_capture *capture = command_io_capture(observation->io, stream);

	json_text_key(json, key);
	if (observation->base64) {
		stream_capture_write_base64(capture, json);
	} else if (observation->shown) {
		struct stream_room rooms[COMMAND_STREAMS];
		struct stream_shown shown;

		observation_rooms(observation, rooms);
		stream_shown_make(capture, rooms[stream], NULL, &shown);
		stream_shown_write(&shown, json);
		return shown.cut;
	} else {
		stream_capture_write_text(capture, json);
	}
	return stream_capture_truncated(capture);
}

/* Says that the command goes on, and from which cursor its output is read. */
static void put_session(struct json_text *json, const struct observation *observation)
{
	uint64_t next = 0;

	for (size_t i = 0; i < COMMAND_STREAMS; i++)
		next += stream_capture_total(command_io_capture(observation->io, i));
	json_text_put(json, "state", "running");
	json_text_put(json, "session", observation->session);
	if (observation->session_name)
		json_text_put(json, "name", observation->session_name);
	json_text_put_uint64(json, "next", next);
}

static void write_run_command(struct json_text *json, const struct observation *observation)
{
	const struct stream_capture *out =
		command_io_capture(observation->io, COMMAND_STREAM_STDOUT);
	const struct stream_capture *err =
		command_io_capture(observation->io, COMMAND_STREAM_STDERR);
	bool timed_out = observation->ended_by == ENDED_BY_TIMEOUT ||
			 observation->ended_by == ENDED_BY_IDLE_TIMEOUT ||
			 observation->ended_by == ENDED_BY_LIFETIME ||
			 observation->ended_by == ENDED_BY_INPUT;
	bool cut = false;

	/* What a session ended as is kept, and given to all that wait for it. */
	json_text_put_text(json, "command",
		observation->apart ? utf8_cut(observation->args->command, LIMIT_SESSION_SHOWN_BYTES)
				   : observation_word(observation, observation->args->command));
	put_ending(json, observation);
	if (!observation->apart) {
		cut = put_stream(json, "stdout", observation, COMMAND_STREAM_STDOUT);
		cut |= put_stream(json, "stderr", observation, COMMAND_STREAM_STDERR);
	}
	json_text_put_uint64(json, "stdout_bytes", stream_capture_total(out));
	json_text_put_uint64(json, "stderr_bytes", stream_capture_total(err));
	if (!observation->apart)
		json_text_put_bool(json, "truncated", cut);
	json_text_put_bool(json, "timed_out", timed_out);
	json_text_put_text(json, "ended_by", text_from(ended_by_name(observation->ended_by)));
	if (observation->session)
		put_session(json, observation);
	json_text_put_uint64(json, "duration_ms", observation->wall_us / 1000);
	if (observation->base64)
		json_text_put_text(json, "encoding", TEXT_LITERAL("base64"));
}

/* Of a tool that acts on sessions, the items are all members. */
static void write_members(struct json_text *json, const struct observation *observation)
{
	json_text_take(json, observation->items);
}

static void write_output(struct json_text *json, const struct observation *observation)
{
	static void (*const writers[TOOL_COUNT])(struct json_text *, const struct observation *) = {
		[TOOL_READ_FILE] = write_read_file,
		[TOOL_WRITE_FILE] = write_write_file,
		[TOOL_LIST_DIRECTORY] = write_list_directory,
		[TOOL_SEARCH_FILES] = write_search_files,
		[TOOL_RUN_COMMAND] = write_run_command,
		[TOOL_EDIT_FILE] = write_edit_file,
		[TOOL_APPLY_PATCH] = write_apply_patch,
		[TOOL_READ_OUTPUT] = write_members,
		[TOOL_SEND_INPUT] = write_members,
		[TOOL_STOP_COMMAND] = write_members,
		[TOOL_LIST_COMMANDS] = write_members,
	};
	const struct tool *tool = tool_by_name(observation->tool);

	json_text_key(json, "output");
	if (!tool || !observation_has_output(observation)) {
		json_text_null(json);
		return;
	}
	json_text_object_begin(json);
	writers[tool->id](json, observation);
	json_text_object_end(json);
}

static void write_error(struct json_text *json, const struct observation *observation)
{
	json_text_key(json, "error");
	if (observation->error == TOOL_OK) {
		json_text_null(json);
		return;
	}
	json_text_object_begin(json);
	json_text_put_text(json, "code", text_from(tool_error_name(observation->error)));
	json_text_put_text(json, "message", observation_message(observation));
	if (observation->retry_after_ms > 0)
		json_text_put_uint64(json, "retry_after_ms", (uint64_t)observation->retry_after_ms);
	if (observation->node)
		json_text_put_text(json, "node", text_from(observation->node));
	if (observation->data && evbuffer_get_length(observation->data) > 0) {
		json_text_put_taken(json, "data", observation->data);
	}
	json_text_object_end(json);
}

static void write_notes(struct json_text *json, const struct notes *notes)
{
	if (!notes || notes->count == 0)
		return;
	json_text_put_array(json, "notes");
	for (size_t i = 0; i < notes->count; i++)
		json_text_string(json, text_from(notes->texts[i]));
	json_text_array_end(json);
}

/* Left out if the command had no cgroup to measure it. */
static void write_cgroup_usage(struct json_text *json, const struct command_cgroup_usage *usage)
{
	if (usage->has_memory_peak)
		json_text_put_uint64(json, "peak_memory_bytes", usage->memory_peak_bytes);
	if (usage->has_io) {
		json_text_put_uint64(json, "io_read_bytes", usage->io_read_bytes);
		json_text_put_uint64(json, "io_write_bytes", usage->io_write_bytes);
	}
}

void observation_write_changes(struct json_text *json, const struct observation *observation)
{
	const struct files_totals *totals = observation->totals;

	json_text_put_uint64(json, "since", (uint64_t)observation->args->since);
	json_text_put_taken(json, "changes", observation->items);
	json_text_put_uint64(json, "count", observation->files->count);
	json_text_put_bool(json, "truncated", observation->files->truncated);
	json_text_put_uint64(json, "added", totals->added);
	json_text_put_uint64(json, "changed", totals->changed);
	json_text_put_uint64(json, "deleted", totals->deleted);
	json_text_put_uint64(json, "unread", totals->unread);
	if (observation->args->as_patch)
		json_text_put_uint64(json, "unpatched", totals->unpatched);
}

void observation_write_usage(struct json_text *json, const struct observation *observation)
{
	json_text_put_object(json, "usage");
	json_text_put_uint64(json, "wall_us", observation->wall_us);
	if (observation->command) {
		json_text_put_uint64(json, "user_us", observation->command->user_us);
		json_text_put_uint64(json, "system_us", observation->command->system_us);
		json_text_put_uint64(json, "max_rss_bytes", observation->command->max_rss_bytes);
		if (observation->command->left_over > 0)
			json_text_put_uint64(
				json, "processes_ended", observation->command->left_over);
		write_cgroup_usage(json, &observation->command->cgroup);
	}
	if (observation->disk_limit > 0) {
		json_text_put_object(json, "disk");
		json_text_put_uint64(json, "bytes", observation->disk_bytes);
		json_text_put_uint64(json, "limit", observation->disk_limit);
		json_text_object_end(json);
	}
	json_text_object_end(json);
}

/* Writes what is said of a call with a key, as the last members. */
static void write_key(struct json_text *json, const struct observation *observation)
{
	if (observation->resolved)
		json_text_put_bool(json, "resolved", true);
	if (observation->replayed)
		json_text_put_bool(json, "replayed", true);
	if (observation->key_horizon_ms > 0)
		json_text_put_uint64(json, "key_horizon_ms", (uint64_t)observation->key_horizon_ms);
}

void observation_write_diff(struct json_text *json, const struct observation *observation)
{
	if (!observation->diff || evbuffer_get_length(observation->diff) == 0)
		return;
	json_text_put_taken(json, "diff", observation->diff);
}

void observation_write(struct json_text *json, const struct observation *observation)
{
	if (observation->kept) {
		struct text kept = observation->kept->json;

		kept.len--; /* its last brace */
		json_text_raw(json, kept);
		write_key(json, observation);
		observation_write_diff(json, observation);
		json_text_object_end(json);
		return;
	}
	json_text_object_begin(json);
	json_text_put_bool(json, "success", observation->error == TOOL_OK);
	json_text_put_text(json, "tool", observation->tool);
	write_output(json, observation);
	write_error(json, observation);
	write_notes(json, observation->notes);
	if (observation->network)
		call_network_write(json, observation->network);
	observation_write_usage(json, observation);
	write_key(json, observation);
	json_text_object_end(json);
}
