// SPDX-License-Identifier: Apache-2.0
#include "supervisor/call/result/model_text.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/file_note.h"
#include "supervisor/call/result/observation_json.h"
#include "supervisor/call/result/shown.h"
#include "supervisor/call/result/stream_shown.h"
#include "supervisor/call/result/terminal_plain.h"

#include <assert.h>
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Numbers on every line of source would cost a fifth of its tokens. If there are more than
 * NUMBERED_LINES_MAX lines, only each NUMBERED_EVERYth one has its number.
 */
#define NUMBERED_LINES_MAX 50
#define NUMBERED_EVERY     5

/* The text so far. Once memory is out, nothing more is added. */
struct plain {
	struct evbuffer *out;
	bool failed;
};

static void put_model_text(struct plain *plain, struct text text)
{
	if (!plain->failed && text.len > 0 && evbuffer_add(plain->out, text.data, text.len) < 0)
		plain->failed = true;
}

static void __attribute__((format(printf, 2, 3)))
put_format(struct plain *plain, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (!plain->failed && evbuffer_add_vprintf(plain->out, format, arguments) < 0)
		plain->failed = true;
	va_end(arguments);
}

/* Puts a name. Control characters, which could make two lines of it, are written as in C. */
static void put_name(struct plain *plain, struct text name)
{
	while (name.len > 0) {
		size_t n = 0;

		while (n < name.len && (unsigned char)name.data[n] >= 0x20 && name.data[n] != 0x7f)
			n++;
		put_model_text(plain, (struct text){name.data, n});
		if (n < name.len && name.data[n] == '\n')
			put_model_text(plain, TEXT_LITERAL("\\n"));
		else if (n < name.len && name.data[n] == '\t')
			put_model_text(plain, TEXT_LITERAL("\\t"));
		else if (n < name.len)
			put_format(plain, "\\x%02x", (unsigned char)name.data[n]);
		n += n < name.len;
		name.data += n;
		name.len -= n;
	}
}

static void put_number(struct plain *plain, uint64_t number)
{
	char buffer[SHOWN_NUMBER_SIZE];

	put_model_text(plain, text_from(shown_number(number, buffer)));
}

/* Puts "1 line", "2,000 lines". */
static void put_count(struct plain *plain, uint64_t count, const char *one, const char *several)
{
	put_number(plain, count);
	put_format(plain, " %s", count == 1 ? one : several);
}

/* Puts a size as ls -h shows it. */
static void put_size(struct plain *plain, uint64_t size)
{
	static const char units[] = "KMGTPE";
	uint64_t whole = size, rest = 0;
	size_t unit = 0;

	if (size < KIB) {
		put_format(plain, "%" PRIu64, size);
		return;
	}
	for (; whole >= KIB; unit++, whole /= KIB)
		rest = whole % KIB;
	if (whole < 10)
		put_format(plain, "%" PRIu64 ".%" PRIu64 "%c", whole, (uint64_t)(rest * 10 / KIB),
			units[unit - 1]);
	else
		put_format(plain, "%" PRIu64 "%c", whole, units[unit - 1]);
}

bool model_text_entry(struct evbuffer *text, const struct files_entry *entry, bool with_size)
{
	static const char *const kinds[] = {
		[FILES_TYPE_FIFO] = " (fifo)",
		[FILES_TYPE_SOCKET] = " (socket)",
		[FILES_TYPE_CHARACTER_DEVICE] = " (character device)",
		[FILES_TYPE_BLOCK_DEVICE] = " (block device)",
	};
	struct plain plain = {.out = text};

	put_name(&plain, entry->path);
	if (entry->type == FILES_TYPE_DIRECTORY) {
		put_model_text(&plain, TEXT_LITERAL("/"));
		if (entry->left_out > 0) {
			put_model_text(&plain, TEXT_LITERAL(" ("));
			put_count(&plain, entry->left_out, "entry, not listed)",
				"entries, not listed)");
		}
	} else if (entry->type == FILES_TYPE_SYMLINK) {
		put_model_text(&plain, TEXT_LITERAL(" -> "));
		put_name(&plain, entry->target);
	} else if (entry->type == FILES_TYPE_FILE && with_size) {
		put_model_text(&plain, TEXT_LITERAL("\t"));
		put_size(&plain, entry->size);
	} else if (entry->type < ARRAY_SIZE(kinds) && kinds[entry->type]) {
		put_model_text(&plain, text_from(kinds[entry->type]));
	}
	put_model_text(&plain, TEXT_LITERAL("\n"));
	return !plain.failed;
}

bool model_text_match(struct evbuffer *text, const struct files_match *match)
{
	struct plain plain = {.out = text};
	struct text line = match->text;

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	put_name(&plain, match->path);
	put_format(&plain, match->context ? "-%" PRIu64 "-" : ":%" PRIu64 ":", match->line);
	put_model_text(&plain, line);
	put_model_text(&plain, match->cut ? TEXT_LITERAL(" […]\n") : TEXT_LITERAL("\n"));
	return !plain.failed;
}

/* Moves the collected items, one a line. */
static void put_items(struct plain *plain, const struct observation *observation)
{
	if (!plain->failed && evbuffer_add_buffer(plain->out, observation->text) < 0)
		plain->failed = true;
}

/* Begins a new line if the last line has no newline yet. */
static void end_line(struct plain *plain)
{
	size_t len = evbuffer_get_length(plain->out);
	struct evbuffer_ptr at;
	char last = '\n';

	if (len > 0 && evbuffer_ptr_set(plain->out, &at, len - 1, EVBUFFER_PTR_SET) == 0)
		(void)evbuffer_copyout_from(plain->out, &at, &last, 1);
	if (last != '\n')
		put_model_text(plain, TEXT_LITERAL("\n"));
}

static void put_note(struct plain *plain, const struct observation *observation)
{
	char buffer[FILE_NOTE_SIZE];
	const char *note = file_note(observation, buffer, sizeof(buffer));

	if (!*note)
		return;
	end_line(plain);
	put_format(plain, "[%s]", note);
}

static uint64_t first_line(const struct observation *observation)
{
	int64_t start = observation->args->start_line;

	return start > 0 ? (uint64_t)start : 1;
}

static bool has_few_numbers(const struct observation *observation)
{
	assert(observation->shown);
	return observation->shown->numbered && observation->files->lines > NUMBERED_LINES_MAX;
}

/* Puts the lines with the numbers of the first one and of every NUMBERED_EVERYth. */
static void put_few_numbers(struct plain *plain, const struct observation *observation)
{
	const char *data = (const char *)evbuffer_pullup(observation->text, -1);
	struct text rest = {data, evbuffer_get_length(observation->text)};
	const uint64_t first = first_line(observation);

	plain->failed |= !data && rest.len > 0;
	for (uint64_t line = first; rest.len > 0 && !plain->failed; line++) {
		const char *newline = memchr(rest.data, '\n', rest.len);
		size_t len = newline ? (size_t)(newline - rest.data) + 1 : rest.len, digits = 0;

		while (digits < len && rest.data[digits] >= '0' && rest.data[digits] <= '9')
			digits++;
		if (line % NUMBERED_EVERY == 0 || line == first)
			digits = 0;
		put_model_text(plain, (struct text){rest.data + digits, len - digits});
		rest.data += len;
		rest.len -= len;
	}
}

/* "src/a.c (300 lines)", "src/a.c (lines 2-4 of 5)" */
static void put_range(struct plain *plain, const struct observation *observation)
{
	const struct files_end *end = observation->files;
	uint64_t first = first_line(observation);

	if (end->lines == 0)
		put_model_text(plain, TEXT_LITERAL("empty"));
	else if (first == 1 && end->lines == end->total_lines)
		put_count(plain, end->lines, "line", "lines");
	else
		put_format(plain, "lines %" PRIu64 "-%" PRIu64, first, first + end->lines - 1);
	if (end->lines > 0 && end->lines < end->total_lines)
		put_format(plain, " of %" PRIu64, end->total_lines);
	if (has_few_numbers(observation))
		put_model_text(plain, TEXT_LITERAL("; every fifth has its number"));
	if (strcmp(observation->encoding, "utf-8-replaced") == 0)
		put_model_text(plain,
			TEXT_LITERAL("; bytes that are not UTF-8 are shown as \xef\xbf\xbd"));
}

static void write_read_file(struct plain *plain, const struct observation *observation)
{
	const struct files_end *end = observation->files;

	put_name(plain, end->path);
	put_model_text(plain, TEXT_LITERAL(" ("));
	if (end->binary) {
		put_name(plain, end->type);
		put_model_text(plain, TEXT_LITERAL(", "));
		put_count(plain, end->size, "byte", "bytes");
	} else {
		put_range(plain, observation);
	}
	put_model_text(plain, TEXT_LITERAL(")\n"));
	if (!end->binary && has_few_numbers(observation))
		put_few_numbers(plain, observation);
	else if (!end->binary)
		put_items(plain, observation);
	put_note(plain, observation);
}

static void write_write_file(struct plain *plain, const struct observation *observation)
{
	put_name(plain, observation->files->path);
	put_model_text(plain, TEXT_LITERAL(" ("));
	put_count(plain, observation->files->size, "byte", "bytes");
	put_format(
		plain, " written, %s)\n", observation->files->created ? "a new file" : "replaced");
}

static void write_edit_file(struct plain *plain, const struct observation *observation)
{
	const struct files_end *end = observation->files;

	put_name(plain, end->path);
	put_model_text(plain, TEXT_LITERAL(" ("));
	put_count(plain, end->count, "replacement", "replacements");
	put_model_text(plain, TEXT_LITERAL(")\n"));
	put_items(plain, observation);
}

static void write_apply_patch(struct plain *plain, const struct observation *observation)
{
	put_model_text(plain, TEXT_LITERAL("All of the patch was done:\n"));
	put_items(plain, observation);
}

static void write_list_directory(struct plain *plain, const struct observation *observation)
{
	put_name(plain, observation->files->path);
	put_model_text(plain, TEXT_LITERAL(" ("));
	put_count(plain, observation->files->count, "entry", "entries");
	put_model_text(plain,
		observation->files->truncated ? TEXT_LITERAL(" shown)\n") : TEXT_LITERAL(")\n"));
	put_items(plain, observation);
	put_note(plain, observation);
}

static void write_search_files(struct plain *plain, const struct observation *observation)
{
	const struct files_end *end = observation->files;

	put_count(plain, end->count, "match", "matches");
	put_model_text(plain, end->truncated ? TEXT_LITERAL(" shown, ") : TEXT_LITERAL(", "));
	put_count(plain, end->files_searched, "file", "files");
	put_model_text(plain, TEXT_LITERAL(" searched"));
	if (end->files_skipped > 0) {
		put_model_text(plain, TEXT_LITERAL(", "));
		put_number(plain, end->files_skipped);
		put_model_text(plain, TEXT_LITERAL(" skipped (binary, too large or unreadable)"));
	}
	put_model_text(plain, TEXT_LITERAL("\n"));
	put_items(plain, observation);
	put_note(plain, observation);
}

static void put_stream(struct plain *plain, const struct stream_shown *shown)
{
	const size_t len =
		shown->head.len + shown->tail[0].len + shown->tail[1].len + strlen(shown->mark);
	struct terminal_plain text = {.out = malloc(2 * len + 1), .size = 2 * len, .rest = 2 * len};

	if (!text.out) {
		plain->failed = true;
		return;
	}
	terminal_plain_add(&text, shown->head);
	terminal_plain_add(&text, text_from(shown->mark));
	terminal_plain_add(&text, shown->tail[0]);
	terminal_plain_add(&text, shown->tail[1]);
	put_model_text(plain, terminal_plain_end(&text));
	free(text.out);
}

bool model_text_stream(struct evbuffer *text, const struct stream_shown *shown)
{
	struct plain plain = {.out = text};

	put_stream(&plain, shown);
	return !plain.failed;
}

bool model_text_name(struct evbuffer *text, struct text name)
{
	struct plain plain = {.out = text};

	put_name(&plain, name);
	return !plain.failed;
}

/* Puts how the command ended, unless the error message says it. */
static void put_ending(struct plain *plain, const struct observation *observation)
{
	char ending[OBSERVATION_ENDING_SIZE];

	if (observation->error != TOOL_OK)
		return;
	if (!observation->session) {
		put_model_text(
			plain, text_from(observation_ending(observation, ending, sizeof(ending))));
		return;
	}
	if (observation->session_name) {
		put_model_text(plain, TEXT_LITERAL("still running in the background as \""));
		put_name(plain, text_from(observation->session_name));
		put_model_text(
			plain, TEXT_LITERAL("\": read_output shows what it writes, stop_command "
					    "ends it"));
		return;
	}
	put_format(plain, "still running as session %s", observation->session);
	if (observation->wall_us >= 1000000)
		put_format(plain, " after %" PRIu64 ".%" PRIu64 " s",
			observation->wall_us / 1000000, observation->wall_us / 100000 % 10);
}

static void write_run_command(struct plain *plain, const struct observation *observation)
{
	const struct stream_capture *out =
		command_io_capture(observation->io, COMMAND_STREAM_STDOUT);
	const struct stream_capture *err =
		command_io_capture(observation->io, COMMAND_STREAM_STDERR);
	struct stream_room rooms[COMMAND_STREAMS] = {
		{UINT64_MAX, UINT64_MAX}, {UINT64_MAX, UINT64_MAX}};
	struct stream_shown shown;

	if (observation->shown)
		observation_rooms(observation, rooms);
	put_ending(plain, observation);
	if (stream_capture_total(out) + stream_capture_total(err) == 0)
		put_model_text(plain, observation->error == TOOL_OK ? TEXT_LITERAL(", no output\n")
								    : TEXT_LITERAL("no output\n"));
	else if (observation->error == TOOL_OK)
		put_model_text(plain, TEXT_LITERAL("\n"));
	if (stream_capture_total(out) > 0) {
		stream_shown_make(out, rooms[COMMAND_STREAM_STDOUT], NULL, &shown);
		put_stream(plain, &shown);
	}
	if (stream_capture_total(err) > 0) {
		stream_shown_make(err, rooms[COMMAND_STREAM_STDERR], NULL, &shown);
		end_line(plain);
		put_model_text(plain, TEXT_LITERAL("[stderr]\n"));
		put_stream(plain, &shown);
	}
}

static void put_error(struct plain *plain, const struct observation *observation)
{
	put_format(plain, "%s: ", tool_error_name(observation->error));
	put_model_text(plain, observation_message(observation));
	if (observation->retry_after_ms > 0)
		put_format(plain, " (try again after %" PRId64 " ms)", observation->retry_after_ms);
	put_model_text(plain, TEXT_LITERAL("\n"));
}

/* Puts a line for each note. */
static void put_notes(struct plain *plain, const struct notes *notes)
{
	for (size_t i = 0; notes && i < notes->count; i++) {
		end_line(plain);
		put_model_text(plain, TEXT_LITERAL("["));
		put_name(plain, text_from(notes->texts[i]));
		put_model_text(plain, TEXT_LITERAL("]"));
	}
}

/* clang-format off */
static const struct {
	void (*write)(struct plain *plain, const struct observation *observation);
	bool items; /* it puts observation.text */
} writers[TOOL_COUNT] = {
	[TOOL_READ_FILE] =      {write_read_file, true},
	[TOOL_WRITE_FILE] =     {write_write_file, false},
	[TOOL_LIST_DIRECTORY] = {write_list_directory, true},
	[TOOL_SEARCH_FILES] =   {write_search_files, true},
	[TOOL_RUN_COMMAND] =    {write_run_command, false},
	[TOOL_EDIT_FILE] =      {write_edit_file, true},
	[TOOL_APPLY_PATCH] =    {write_apply_patch, true},
	[TOOL_READ_OUTPUT] =    {put_items, true},
	[TOOL_SEND_INPUT] =     {put_items, true},
	[TOOL_STOP_COMMAND] =   {put_items, true},
	[TOOL_LIST_COMMANDS] =  {put_items, true},
};
/* clang-format on */

bool model_text_exists(const struct observation *observation)
{
	if (observation->kept)
		return observation->kept->model.len > 0;
	if (observation->shown)
		return observation->shown->text;
	return !observation->base64 && !observation_has_output(observation);
}

static void put_output(struct plain *plain, const struct observation *observation)
{
	const struct tool *tool = tool_by_name(observation->tool);

	if (!tool || !observation_has_output(observation))
		return;
	if (!writers[tool->id].items || observation->text)
		writers[tool->id].write(plain, observation);
	else
		put_error(plain,
			&(struct observation){.error = TOOL_EXECUTION_ERROR,
				.message = TEXT_LITERAL("The result was not kept as text; ask for "
							"it with the encoding base64")});
}

void model_text_write(struct json_text *json, const struct observation *observation)
{
	struct plain plain;

	if (observation->kept) {
		json_text_raw(json, observation->kept->model);
		return;
	}
	plain = (struct plain){.out = evbuffer_new()};
	plain.failed = !plain.out;
	if (observation->error != TOOL_OK)
		put_error(&plain, observation);
	if (!plain.failed)
		put_output(&plain, observation);
	if (!plain.failed)
		put_notes(&plain, observation->notes);
	if (plain.failed)
		json->failed = true;
	else
		json_text_string_of(json, plain.out);
	if (plain.out)
		evbuffer_free(plain.out);
}

/* Writes both forms to @out. Returns 0 or -ENOMEM. */
static int write_both(const struct observation *observation, struct evbuffer *out, size_t *ret_json)
{
	struct json_text json = json_text(out);
	int r;

	observation_write(&json, observation);
	r = json_text_flush(&json);
	*ret_json = evbuffer_get_length(out);
	if (r < 0 || !model_text_exists(observation))
		return r;
	json = json_text(out);
	model_text_write(&json, observation);
	return json_text_flush(&json);
}

int model_text_keep(const struct observation *observation, size_t max, struct key_result *ret)
{
	struct key_result result = {.error = observation->error, .base64 = observation->base64};
	struct evbuffer *out = evbuffer_new();
	size_t json = 0, all = 0;
	int r = out ? write_both(observation, out, &json) : -ENOMEM;

	if (r == 0) {
		all = evbuffer_get_length(out);
		r = json > max || all - json > max ? -EMSGSIZE : 0;
	}
	if (r == 0) {
		result.buffer = malloc(all + 1);
		r = result.buffer ? 0 : -ENOMEM;
	}
	if (r == 0) {
		evbuffer_remove(out, result.buffer, all);
		result.json = (struct text){result.buffer, json};
		result.model = (struct text){result.buffer + json, all - json};
		*ret = result;
	}
	if (out)
		evbuffer_free(out);
	return r;
}
