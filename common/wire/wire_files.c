// SPDX-License-Identifier: Apache-2.0
/* Every get function checks the whole payload. It returns 0, or -EBADMSG with @ret untouched. */
#include "common/wire/wire_files.h"

#include "common/limits.h"

#include <errno.h>

void files_read_put(struct wire_writer *writer, const struct files_read *message)
{
	wire_put_text(writer, message->path);
	wire_put_u64(writer, message->start_line);
	wire_put_u64(writer, message->end_line);
	wire_put_u8(writer, message->numbered);
	wire_put_u8(writer, message->raw);
	wire_put_u8(writer, message->images);
	wire_put_u8(writer, message->by_type);
}

int files_read_get(struct text payload, struct files_read *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_read message;

	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.start_line = wire_get_u64(&reader);
	message.end_line = wire_get_u64(&reader);
	message.numbered = wire_get_bool(&reader);
	message.raw = wire_get_bool(&reader);
	message.images = wire_get_bool(&reader);
	message.by_type = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

bool files_attribute_next(struct text *left, struct text *ret_name, struct text *ret_value)
{
	struct wire_reader reader = wire_reader(left->data, left->len);

	if (left->len == 0)
		return false;
	*ret_name = wire_get_text(&reader, FILES_ATTRIBUTE_BYTES);
	*ret_value = wire_get_text(&reader, FILES_ATTRIBUTE_BYTES);
	*left = wire_get_rest(&reader);
	return !reader.failed;
}

/* Whether @attributes are whole pairs with names. */
static bool are_attributes(struct text attributes)
{
	struct text name, value;

	while (attributes.len > 0)
		if (!files_attribute_next(&attributes, &name, &value) || name.len == 0)
			return false;
	return true;
}

void files_write_put(struct wire_writer *writer, const struct files_write *message)
{
	wire_put_text(writer, message->path);
	wire_put_text(writer, message->expect);
	wire_put_u64(writer, message->size);
	wire_put_u32(writer, message->mode);
	wire_put_u8(writer, message->create_dirs);
	wire_put_u8(writer, message->durable);
	wire_put_u8(writer, message->held);
	wire_put_u8(writer, message->look);
	wire_put_u8(writer, message->streamed);
	wire_put_u8(writer, message->sets_attributes);
	wire_put_text(writer, message->attributes);
}

int files_write_get(struct text payload, struct files_write *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_write message;

	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.expect = wire_get_text(&reader, FILES_VERSION_BYTES);
	message.size = wire_get_u64(&reader);
	message.mode = wire_get_u32(&reader);
	message.create_dirs = wire_get_bool(&reader);
	message.durable = wire_get_bool(&reader);
	message.held = wire_get_bool(&reader);
	message.look = wire_get_bool(&reader);
	message.streamed = wire_get_bool(&reader);
	message.sets_attributes = wire_get_bool(&reader);
	message.attributes = wire_get_text(&reader, FILES_ATTRIBUTE_BYTES);
	if (wire_reader_end(&reader) < 0 || message.size > LIMIT_CONTENT_BYTES ||
		message.mode > 0777 ||
		(message.streamed && (message.size > 0 || message.held || message.look)) ||
		(message.attributes.len > 0 && !message.sets_attributes) ||
		!are_attributes(message.attributes))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_edit_put(struct wire_writer *writer, const struct files_edit *message)
{
	wire_put_text(writer, message->path);
	wire_put_text(writer, message->expect);
	wire_put_u64(writer, message->size);
	wire_put_u8(writer, message->durable);
	wire_put_u8(writer, message->held);
	wire_put_u8(writer, message->look);
}

int files_edit_get(struct text payload, struct files_edit *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_edit message;

	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.expect = wire_get_text(&reader, FILES_VERSION_BYTES);
	message.size = wire_get_u64(&reader);
	message.durable = wire_get_bool(&reader);
	message.held = wire_get_bool(&reader);
	message.look = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0 || message.size == 0 ||
		message.size > LIMIT_EDIT_BYTES + LIMIT_EDITS * FILES_EDIT_OVERHEAD)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_patch_put(struct wire_writer *writer, const struct files_patch *message)
{
	wire_put_u64(writer, message->size);
	wire_put_u8(writer, message->durable);
	wire_put_u8(writer, message->held);
	wire_put_u8(writer, message->look);
}

int files_patch_get(struct text payload, struct files_patch *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_patch message;

	message.size = wire_get_u64(&reader);
	message.durable = wire_get_bool(&reader);
	message.held = wire_get_bool(&reader);
	message.look = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0 || message.size == 0 || message.size > FILES_PATCH_MAX)
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
	wire_put_u8(writer, message->by_depth);
	wire_put_u32(writer, message->max_entries);
}

int files_list_get(struct text payload, struct files_list *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_list message;

	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.pattern = wire_get_text(&reader, LIMIT_PATTERN_BYTES);
	message.recursive = wire_get_bool(&reader);
	message.gitignore = wire_get_bool(&reader);
	message.by_depth = wire_get_bool(&reader);
	message.max_entries = wire_get_u32(&reader);
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
	wire_put_u32(writer, message->offset);
	wire_put_u32(writer, message->context);
}

int files_search_get(struct text payload, struct files_search *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_search message;

	message.pattern = wire_get_text(&reader, LIMIT_PATTERN_BYTES);
	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.file_pattern = wire_get_text(&reader, LIMIT_PATTERN_BYTES);
	message.gitignore = wire_get_bool(&reader);
	message.max_results = wire_get_u32(&reader);
	message.offset = wire_get_u32(&reader);
	message.context = wire_get_u32(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_diff_put(struct wire_writer *writer, const struct files_diff *message)
{
	wire_put_u32(writer, message->since);
	wire_put_u8(writer, message->patch);
	wire_put_u32(writer, message->max_changes);
}

int files_diff_get(struct text payload, struct files_diff *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_diff message;

	message.since = wire_get_u32(&reader);
	message.patch = wire_get_bool(&reader);
	message.max_changes = wire_get_u32(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_ask_put(struct wire_writer *writer, const struct files_ask *message)
{
	wire_put_text(writer, message->path);
	wire_put_text(writer, message->to);
	wire_put_u64(writer, message->offset);
	wire_put_u64(writer, message->length);
	wire_put_u32(writer, message->depth);
	wire_put_u32(writer, message->max_entries);
	wire_put_u32(writer, message->mode);
	wire_put_u8(writer, message->follow);
	wire_put_u8(writer, message->parents);
	wire_put_u8(writer, message->replace);
	wire_put_u8(writer, message->recursive);
	wire_put_u8(writer, message->attributes);
}

int files_ask_get(struct text payload, struct files_ask *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_ask message;

	message.path = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.to = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.offset = wire_get_u64(&reader);
	message.length = wire_get_u64(&reader);
	message.depth = wire_get_u32(&reader);
	message.max_entries = wire_get_u32(&reader);
	message.mode = wire_get_u32(&reader);
	message.follow = wire_get_bool(&reader);
	message.parents = wire_get_bool(&reader);
	message.replace = wire_get_bool(&reader);
	message.recursive = wire_get_bool(&reader);
	message.attributes = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0 || message.mode > 0777 || message.offset > INT64_MAX)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_amount_put(struct wire_writer *writer, const struct files_amount *message)
{
	wire_put_u64(writer, message->bytes);
}

int files_amount_get(struct text payload, struct files_amount *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_amount message = {.bytes = wire_get_u64(&reader)};

	if (wire_reader_end(&reader) < 0 || message.bytes == 0 ||
		message.bytes > LIMIT_FILE_STREAM_WINDOW)
		return -EBADMSG;
	*ret = message;
	return 0;
}

static void put_entry(struct wire_writer *writer, const struct files_entry *message)
{
	wire_put_text(writer, message->path);
	wire_put_u8(writer, message->type);
	wire_put_u64(writer, message->size);
	wire_put_u64(writer, message->mtime_ns);
	wire_put_text(writer, message->target);
	wire_put_u64(writer, message->left_out);
}

static struct files_entry get_entry(struct wire_reader *reader)
{
	struct files_entry message;

	message.path = wire_get_text(reader, WIRE_PAYLOAD_MAX);
	message.type = wire_get_u8(reader);
	message.size = wire_get_u64(reader);
	message.mtime_ns = wire_get_u64(reader);
	message.target = wire_get_text(reader, LIMIT_PATH_BYTES);
	message.left_out = wire_get_u64(reader);
	if (message.type < FILES_TYPE_FILE || message.type > FILES_TYPE_UNKNOWN)
		reader->failed = true;
	return message;
}

static void put_node(struct wire_writer *writer, const struct files_node *message)
{
	put_entry(writer, &message->entry);
	wire_put_u32(writer, message->mode);
	wire_put_u32(writer, message->uid);
	wire_put_u32(writer, message->gid);
	wire_put_u64(writer, message->links);
	wire_put_text(writer, message->owner);
	wire_put_text(writer, message->group);
	wire_put_text(writer, message->attributes);
	wire_put_u8(writer, message->attributes_cut);
}

static struct files_node get_node(struct wire_reader *reader)
{
	struct files_node message;

	message.entry = get_entry(reader);
	message.mode = wire_get_u32(reader);
	message.uid = wire_get_u32(reader);
	message.gid = wire_get_u32(reader);
	message.links = wire_get_u64(reader);
	message.owner = wire_get_text(reader, LIMIT_NAME_BYTES);
	message.group = wire_get_text(reader, LIMIT_NAME_BYTES);
	message.attributes = wire_get_text(reader, FILES_ATTRIBUTE_BYTES);
	message.attributes_cut = wire_get_bool(reader);
	return message;
}

static bool is_node(const struct files_node *message)
{
	return message->mode <= 07777 && are_attributes(message->attributes);
}

void files_node_put(struct wire_writer *writer, const struct files_node *message)
{
	put_node(writer, message);
}

int files_node_get(struct text payload, struct files_node *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	const struct files_node message = get_node(&reader);

	if (wire_reader_end(&reader) < 0 || !is_node(&message))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_event_put(struct wire_writer *writer, const struct files_event *message)
{
	wire_put_u8(writer, message->type);
	wire_put_u8(writer, message->directory);
	wire_put_u32(writer, message->cookie);
	wire_put_u8(writer, message->has_node);
	if (message->has_node)
		put_node(writer, &message->node);
	else
		wire_put_text(writer, message->path);
}

int files_event_get(struct text payload, struct files_event *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_event message = {.type = wire_get_u8(&reader)};

	message.directory = wire_get_bool(&reader);
	message.cookie = wire_get_u32(&reader);
	message.has_node = wire_get_bool(&reader);
	if (message.has_node)
		message.node = get_node(&reader);
	message.path = message.has_node ? message.node.entry.path
					: wire_get_text(&reader, LIMIT_PATH_BYTES);
	if (wire_reader_end(&reader) < 0 || (message.has_node && !is_node(&message.node)) ||
		message.type < FILES_EVENT_CREATED || message.type > FILES_EVENT_UNWATCHED ||
		message.path.len == 0 || message.path.len > LIMIT_PATH_BYTES ||
		text_has_nul(message.path))
		return -EBADMSG;
	*ret = message;
	return 0;
}

static void put_state(struct wire_writer *writer, const struct files_state_of *state)
{
	wire_put_u8(writer, state->type);
	wire_put_u64(writer, state->size);
	wire_put_u32(writer, state->mode);
}

static struct files_state_of get_state(struct wire_reader *reader)
{
	struct files_state_of state;

	state.type = wire_get_u8(reader);
	state.size = wire_get_u64(reader);
	state.mode = wire_get_u32(reader);
	return state;
}

void files_change_put(struct wire_writer *writer, const struct files_change *message)
{
	wire_put_text(writer, message->path);
	put_state(writer, &message->before);
	put_state(writer, &message->after);
}

int files_change_get(struct text payload, struct files_change *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_change message;

	message.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX);
	message.before = get_state(&reader);
	message.after = get_state(&reader);
	if (wire_reader_end(&reader) < 0 || message.before.type > FILES_TYPE_UNKNOWN ||
		message.after.type > FILES_TYPE_UNKNOWN || message.before.mode > 07777 ||
		message.after.mode > 07777 || (message.before.type == 0 && message.after.type == 0))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_totals_put(struct wire_writer *writer, const struct files_totals *message)
{
	wire_put_u64(writer, message->added);
	wire_put_u64(writer, message->changed);
	wire_put_u64(writer, message->deleted);
	wire_put_u64(writer, message->unread);
	wire_put_u64(writer, message->unpatched);
}

int files_totals_get(struct text payload, struct files_totals *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_totals message;

	message.added = wire_get_u64(&reader);
	message.changed = wire_get_u64(&reader);
	message.deleted = wire_get_u64(&reader);
	message.unread = wire_get_u64(&reader);
	message.unpatched = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_entry_put(struct wire_writer *writer, const struct files_entry *message)
{
	put_entry(writer, message);
}

int files_entry_get(struct text payload, struct files_entry *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_entry message = get_entry(&reader);

	if (wire_reader_end(&reader) < 0)
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
	wire_put_u8(writer, message->context);
}

int files_match_get(struct text payload, struct files_match *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_match message;

	message.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX);
	message.line = wire_get_u64(&reader);
	message.text = wire_get_text(&reader, LIMIT_SEARCH_LINE_BYTES);
	message.cut = wire_get_bool(&reader);
	message.context = wire_get_bool(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_trouble_put(struct wire_writer *writer, const struct files_trouble *message)
{
	wire_put_text(writer, message->file);
	wire_put_u32(writer, message->edit);
	wire_put_text(writer, message->kind);
	wire_put_text(writer, message->closest);
	wire_put_u32(writer, message->n_lines);
	for (uint32_t i = 0; i < message->n_lines; i++)
		wire_put_u64(writer, message->lines[i]);
}

int files_trouble_get(struct text payload, struct files_trouble *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_trouble message = {0};

	message.file = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.edit = wire_get_u32(&reader);
	message.kind = wire_get_text(&reader, LIMIT_NAME_BYTES);
	message.closest = wire_get_text(&reader, FILES_TROUBLE_CLOSEST);
	message.n_lines = wire_get_u32(&reader);
	if (message.n_lines > FILES_TROUBLE_LINES)
		return -EBADMSG;
	for (uint32_t i = 0; i < message.n_lines; i++)
		message.lines[i] = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_held_put(struct wire_writer *writer, const struct files_held *message)
{
	wire_put_text(writer, message->before);
	wire_put_text(writer, message->after);
	wire_put_u64(writer, message->size);
}

int files_held_get(struct text payload, struct files_held *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_held message;

	message.before = wire_get_text(&reader, FILES_VERSION_BYTES);
	message.after = wire_get_text(&reader, FILES_VERSION_BYTES);
	message.size = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 || text_has_nul(message.before) ||
		text_has_nul(message.after))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_patched_put(struct wire_writer *writer, const struct files_patched *message)
{
	wire_put_u32(writer, message->index);
	wire_put_u8(writer, message->operation);
	wire_put_text(writer, message->path);
	wire_put_text(writer, message->from);
	wire_put_u64(writer, message->added);
	wire_put_u64(writer, message->removed);
	wire_put_text(writer, message->version);
	wire_put_text(writer, message->found);
}

int files_patched_get(struct text payload, struct files_patched *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_patched message;

	message.index = wire_get_u32(&reader);
	message.operation = wire_get_u8(&reader);
	message.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX);
	message.from = wire_get_text(&reader, WIRE_PAYLOAD_MAX);
	message.added = wire_get_u64(&reader);
	message.removed = wire_get_u64(&reader);
	message.version = wire_get_text(&reader, FILES_VERSION_BYTES);
	message.found = wire_get_text(&reader, FILES_FOUND_BYTES);
	if (wire_reader_end(&reader) < 0 || message.index >= LIMIT_PATCH_FILES ||
		message.operation < FILES_ADD || message.operation > FILES_MOVE ||
		text_has_nul(message.version) || text_has_nul(message.found))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_step_put(struct wire_writer *writer, const struct files_step *message)
{
	wire_put_u32(writer, message->index);
	wire_put_u8(writer, message->state);
}

int files_step_get(struct text payload, struct files_step *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_step message;

	message.index = wire_get_u32(&reader);
	message.state = wire_get_u8(&reader);
	if (wire_reader_end(&reader) < 0 || message.index >= LIMIT_PATCH_FILES ||
		message.state > FILES_CHANGED)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_sweep_put(struct wire_writer *writer, const struct files_sweep *message)
{
	wire_put_u8(writer, message->prompt);
}

int files_sweep_get(struct text payload, struct files_sweep *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_sweep message = {.prompt = wire_get_bool(&reader)};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void files_ready_put(struct wire_writer *writer, const struct files_ready *message)
{
	wire_put_u64(writer, message->disk_limit);
}

int files_ready_get(struct text payload, struct files_ready *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_ready message = {.disk_limit = wire_get_u64(&reader)};

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
	wire_put_u64(writer, message->files_utf16);
	wire_put_text(writer, message->type);
	wire_put_text(writer, message->version);
	wire_put_u64(writer, message->first_line);
	wire_put_u64(writer, message->ignored);
	wire_put_u64(writer, message->disk_bytes);
	wire_put_u64(writer, message->disk_limit);
}

int files_end_get(struct text payload, struct files_end *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct files_end message;

	message.error = wire_get_u32(&reader);
	message.message = wire_get_text(&reader, LIMIT_PATH_BYTES);
	message.path = wire_get_text(&reader, WIRE_PAYLOAD_MAX);
	message.truncated = wire_get_bool(&reader);
	message.binary = wire_get_bool(&reader);
	message.created = wire_get_bool(&reader);
	message.size = wire_get_u64(&reader);
	message.lines = wire_get_u64(&reader);
	message.total_lines = wire_get_u64(&reader);
	message.count = wire_get_u64(&reader);
	message.files_searched = wire_get_u64(&reader);
	message.files_skipped = wire_get_u64(&reader);
	message.files_utf16 = wire_get_u64(&reader);
	message.type = wire_get_text(&reader, LIMIT_NAME_BYTES);
	message.version = wire_get_text(&reader, FILES_VERSION_BYTES);
	message.first_line = wire_get_u64(&reader);
	message.ignored = wire_get_u64(&reader);
	message.disk_bytes = wire_get_u64(&reader);
	message.disk_limit = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 || message.error >= TOOL_ERROR_COUNT)
		return -EBADMSG;
	*ret = message;
	return 0;
}
