// SPDX-License-Identifier: Apache-2.0
/* Every get checks the whole payload: 0, or -EBADMSG with @ret untouched. */
#include "common/wire_files.h"

#include "common/limits.h"

#include <errno.h>

void files_read_put(struct wire_writer *writer, const struct files_read *message)
{
	wire_put_text(writer, message->path);
	wire_put_u64(writer, message->start_line);
	wire_put_u64(writer, message->end_line);
	wire_put_u8(writer, message->numbered);
	wire_put_u8(writer, message->raw);
}

int files_read_get(struct text payload, struct files_read *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_read message = {
		.path = wire_get_text(&reader, LIMIT_PATH_BYTES),
		.start_line = wire_get_u64(&reader),
		.end_line = wire_get_u64(&reader),
		.numbered = wire_get_bool(&reader),
		.raw = wire_get_bool(&reader),
	};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_write_put(struct wire_writer *writer, const struct files_write *message)
{
	wire_put_text(writer, message->path);
	wire_put_u64(writer, message->size);
	wire_put_u8(writer, message->create_dirs);
}

int files_write_get(struct text payload, struct files_write *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_write message = {
		.path = wire_get_text(&reader, LIMIT_PATH_BYTES),
		.size = wire_get_u64(&reader),
		.create_dirs = wire_get_bool(&reader),
	};

	if (wire_reader_end(&reader) < 0 || message.size > LIMIT_CONTENT_BYTES)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_list_put(struct wire_writer *writer, const struct files_list *message)
{
	wire_put_text(writer, message->path);
	wire_put_text(writer, message->pattern);
	wire_put_u8(writer, message->recursive);
	wire_put_u8(writer, message->gitignore);
	wire_put_u32(writer, message->max_entries);
}

int files_list_get(struct text payload, struct files_list *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_list message = {
		.path = wire_get_text(&reader, LIMIT_PATH_BYTES),
		.pattern = wire_get_text(&reader, LIMIT_PATTERN_BYTES),
		.recursive = wire_get_bool(&reader),
		.gitignore = wire_get_bool(&reader),
		.max_entries = wire_get_u32(&reader),
	};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_search_put(struct wire_writer *writer, const struct files_search *message)
{
	wire_put_text(writer, message->pattern);
	wire_put_text(writer, message->path);
	wire_put_text(writer, message->file_pattern);
	wire_put_u8(writer, message->gitignore);
	wire_put_u32(writer, message->max_results);
}

int files_search_get(struct text payload, struct files_search *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_search message = {
		.pattern = wire_get_text(&reader, LIMIT_PATTERN_BYTES),
		.path = wire_get_text(&reader, LIMIT_PATH_BYTES),
		.file_pattern = wire_get_text(&reader, LIMIT_PATTERN_BYTES),
		.gitignore = wire_get_bool(&reader),
		.max_results = wire_get_u32(&reader),
	};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_entry_put(struct wire_writer *writer, const struct files_entry *message)
{
	wire_put_text(writer, message->path);
	wire_put_u8(writer, message->type);
	wire_put_u64(writer, message->size);
	wire_put_u64(writer, message->mtime_ns);
	wire_put_text(writer, message->target);
}

int files_entry_get(struct text payload, struct files_entry *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_entry message = {
		.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX),
		.type = wire_get_u8(&reader),
		.size = wire_get_u64(&reader),
		.mtime_ns = wire_get_u64(&reader),
		.target = wire_get_text(&reader, LIMIT_PATH_BYTES),
	};

	if (wire_reader_end(&reader) < 0 || message.type < FILES_TYPE_FILE ||
		message.type > FILES_TYPE_UNKNOWN)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_match_put(struct wire_writer *writer, const struct files_match *message)
{
	wire_put_text(writer, message->path);
	wire_put_u64(writer, message->line);
	wire_put_text(writer, message->text);
	wire_put_u8(writer, message->cut);
}

int files_match_get(struct text payload, struct files_match *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_match message = {
		.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX),
		.line = wire_get_u64(&reader),
		.text = wire_get_text(&reader, LIMIT_SEARCH_LINE_BYTES),
		.cut = wire_get_bool(&reader),
	};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_end_put(struct wire_writer *writer, const struct files_end *message)
{
	wire_put_u32(writer, message->error);
	wire_put_text(writer, message->message);
	wire_put_text(writer, message->path);
	wire_put_u8(writer, message->truncated);
	wire_put_u8(writer, message->binary);
	wire_put_u8(writer, message->created);
	wire_put_u64(writer, message->size);
	wire_put_u64(writer, message->lines);
	wire_put_u64(writer, message->total_lines);
	wire_put_u64(writer, message->count);
	wire_put_u64(writer, message->files_searched);
	wire_put_u64(writer, message->files_skipped);
	wire_put_text(writer, message->type);
}

int files_end_get(struct text payload, struct files_end *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_end message = {
		.error = wire_get_u32(&reader),
		.message = wire_get_text(&reader, LIMIT_PATH_BYTES),
		.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX),
		.truncated = wire_get_bool(&reader),
		.binary = wire_get_bool(&reader),
		.created = wire_get_bool(&reader),
		.size = wire_get_u64(&reader),
		.lines = wire_get_u64(&reader),
		.total_lines = wire_get_u64(&reader),
		.count = wire_get_u64(&reader),
		.files_searched = wire_get_u64(&reader),
		.files_skipped = wire_get_u64(&reader),
		.type = wire_get_text(&reader, LIMIT_NAME_BYTES),
	};

	if (wire_reader_end(&reader) < 0 || message.error >= TOOL_ERROR_COUNT)
		return -EBADMSG;
	*ret = message;
	return 0;
}
