// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_files.h"

#include "common/limits.h"

WIRE_CODEC(files_read)
{
	wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	wire_u64(codec, &message->start_line);
	wire_u64(codec, &message->end_line);
	wire_bool(codec, &message->numbered);
	wire_bool(codec, &message->raw);
	wire_bool(codec, &message->images);
	wire_bool(codec, &message->by_type);
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

WIRE_CODEC(files_write)
{
	wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	wire_text(codec, &message->expect, FILES_VERSION_BYTES);
	wire_u64(codec, &message->size);
	wire_u32(codec, &message->mode);
	wire_bool(codec, &message->create_dirs);
	wire_bool(codec, &message->durable);
	wire_bool(codec, &message->held);
	wire_bool(codec, &message->look);
	wire_bool(codec, &message->streamed);
	wire_bool(codec, &message->sets_attributes);
	wire_text(codec, &message->attributes, FILES_ATTRIBUTE_BYTES);
	wire_refuse_if(codec, message->size > LIMIT_CONTENT_BYTES || message->mode > 0777 ||
				      (message->streamed && (message->size > 0 || message->held ||
								    message->look)) ||
				      (message->attributes.len > 0 && !message->sets_attributes) ||
				      !are_attributes(message->attributes));
}

WIRE_CODEC(files_edit)
{
	wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	wire_text(codec, &message->expect, FILES_VERSION_BYTES);
	wire_u64(codec, &message->size);
	wire_bool(codec, &message->durable);
	wire_bool(codec, &message->held);
	wire_bool(codec, &message->look);
	wire_refuse_if(codec,
		message->size == 0 ||
			message->size > LIMIT_EDIT_BYTES + LIMIT_EDITS * FILES_EDIT_OVERHEAD);
}

WIRE_CODEC(files_patch)
{
	wire_u64(codec, &message->size);
	wire_bool(codec, &message->durable);
	wire_bool(codec, &message->held);
	wire_bool(codec, &message->look);
	wire_refuse_if(codec, message->size == 0 || message->size > FILES_PATCH_MAX);
}

WIRE_CODEC(files_list)
{
	wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	wire_text(codec, &message->pattern, LIMIT_PATTERN_BYTES);
	wire_bool(codec, &message->recursive);
	wire_bool(codec, &message->gitignore);
	wire_bool(codec, &message->by_depth);
	wire_u32(codec, &message->max_entries);
}

WIRE_CODEC(files_search)
{
	wire_text(codec, &message->pattern, LIMIT_PATTERN_BYTES);
	wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	wire_text(codec, &message->file_pattern, LIMIT_PATTERN_BYTES);
	wire_bool(codec, &message->gitignore);
	wire_u32(codec, &message->max_results);
	wire_u32(codec, &message->offset);
	wire_u32(codec, &message->context);
}

WIRE_CODEC(files_diff)
{
	wire_u32(codec, &message->since);
	wire_bool(codec, &message->patch);
	wire_u32(codec, &message->max_changes);
}

WIRE_CODEC(files_ask)
{
	wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	wire_text(codec, &message->to, LIMIT_PATH_BYTES);
	wire_u64(codec, &message->offset);
	wire_u64(codec, &message->length);
	wire_u32(codec, &message->depth);
	wire_u32(codec, &message->max_entries);
	wire_u32(codec, &message->mode);
	wire_bool(codec, &message->follow);
	wire_bool(codec, &message->parents);
	wire_bool(codec, &message->replace);
	wire_bool(codec, &message->recursive);
	wire_bool(codec, &message->attributes);
	wire_refuse_if(codec, message->mode > 0777 || message->offset > INT64_MAX);
}

WIRE_CODEC(files_amount)
{
	wire_u64(codec, &message->bytes);
	wire_refuse_if(codec, message->bytes == 0 || message->bytes > LIMIT_FILE_STREAM_WINDOW);
}

static void entry_fields(struct wire_codec *codec, struct files_entry *entry)
{
	wire_text(codec, &entry->path, WIRE_PAYLOAD_MAX);
	wire_u8(codec, &entry->type);
	wire_u64(codec, &entry->size);
	wire_u64(codec, &entry->mtime_ns);
	wire_text(codec, &entry->target, LIMIT_PATH_BYTES);
	wire_u64(codec, &entry->left_out);
	wire_refuse_if(codec, entry->type < FILES_TYPE_FILE || entry->type > FILES_TYPE_UNKNOWN);
}

WIRE_CODEC(files_entry)
{
	entry_fields(codec, message);
}

static void node_fields(struct wire_codec *codec, struct files_node *node)
{
	entry_fields(codec, &node->entry);
	wire_u32(codec, &node->mode);
	wire_u32(codec, &node->uid);
	wire_u32(codec, &node->gid);
	wire_u64(codec, &node->links);
	wire_text(codec, &node->owner, LIMIT_NAME_BYTES);
	wire_text(codec, &node->group, LIMIT_NAME_BYTES);
	wire_text(codec, &node->attributes, FILES_ATTRIBUTE_BYTES);
	wire_bool(codec, &node->attributes_cut);
	wire_refuse_if(codec, node->mode > 07777 || !are_attributes(node->attributes));
}

WIRE_CODEC(files_node)
{
	node_fields(codec, message);
}

WIRE_CODEC(files_event)
{
	wire_u8(codec, &message->type);
	wire_bool(codec, &message->directory);
	wire_u32(codec, &message->cookie);
	wire_bool(codec, &message->has_node);
	if (message->has_node) {
		node_fields(codec, &message->node);
		message->path = message->node.entry.path;
	} else {
		wire_text(codec, &message->path, LIMIT_PATH_BYTES);
	}
	wire_refuse_if(
		codec, message->type < FILES_EVENT_CREATED ||
			       message->type > FILES_EVENT_UNWATCHED || message->path.len == 0 ||
			       message->path.len > LIMIT_PATH_BYTES || text_has_nul(message->path));
}

static void state_fields(struct wire_codec *codec, struct files_state_of *state)
{
	wire_u8(codec, &state->type);
	wire_u64(codec, &state->size);
	wire_u32(codec, &state->mode);
	wire_refuse_if(codec, state->type > FILES_TYPE_UNKNOWN || state->mode > 07777);
}

WIRE_CODEC(files_change)
{
	wire_text(codec, &message->path, WIRE_PAYLOAD_MAX);
	state_fields(codec, &message->before);
	state_fields(codec, &message->after);
	wire_refuse_if(codec, message->before.type == 0 && message->after.type == 0);
}

WIRE_CODEC(files_totals)
{
	wire_u64(codec, &message->added);
	wire_u64(codec, &message->changed);
	wire_u64(codec, &message->deleted);
	wire_u64(codec, &message->unread);
	wire_u64(codec, &message->unpatched);
}

WIRE_CODEC(files_match)
{
	wire_text(codec, &message->path, WIRE_PAYLOAD_MAX);
	wire_u64(codec, &message->line);
	wire_text(codec, &message->text, LIMIT_SEARCH_LINE_BYTES);
	wire_bool(codec, &message->cut);
	wire_bool(codec, &message->context);
}

WIRE_CODEC(files_trouble)
{
	wire_text(codec, &message->file, LIMIT_PATH_BYTES);
	wire_u32(codec, &message->edit);
	wire_text(codec, &message->kind, LIMIT_NAME_BYTES);
	wire_text(codec, &message->closest, FILES_TROUBLE_CLOSEST);
	wire_count(codec, &message->n_lines, FILES_TROUBLE_LINES);
	for (uint32_t i = 0; i < message->n_lines; i++)
		wire_u64(codec, &message->lines[i]);
}

WIRE_CODEC(files_held)
{
	wire_name(codec, &message->before, FILES_VERSION_BYTES);
	wire_name(codec, &message->after, FILES_VERSION_BYTES);
	wire_u64(codec, &message->size);
}

WIRE_CODEC(files_patched)
{
	wire_u32(codec, &message->index);
	wire_u8(codec, &message->operation);
	wire_text(codec, &message->path, WIRE_PAYLOAD_MAX);
	wire_text(codec, &message->from, WIRE_PAYLOAD_MAX);
	wire_u64(codec, &message->added);
	wire_u64(codec, &message->removed);
	wire_name(codec, &message->version, FILES_VERSION_BYTES);
	wire_name(codec, &message->found, FILES_FOUND_BYTES);
	wire_refuse_if(codec, message->index >= LIMIT_PATCH_FILES ||
				      message->operation < FILES_ADD ||
				      message->operation > FILES_MOVE);
}

WIRE_CODEC(files_step)
{
	wire_u32(codec, &message->index);
	wire_u8(codec, &message->state);
	wire_refuse_if(
		codec, message->index >= LIMIT_PATCH_FILES || message->state > FILES_CHANGED);
}

WIRE_CODEC(files_sweep)
{
	wire_bool(codec, &message->prompt);
}

WIRE_CODEC(files_ready)
{
	wire_u64(codec, &message->disk_limit);
}

WIRE_CODEC(files_end)
{
	wire_u32(codec, &message->error);
	wire_text(codec, &message->message, LIMIT_PATH_BYTES);
	wire_text(codec, &message->path, WIRE_PAYLOAD_MAX);
	wire_bool(codec, &message->truncated);
	wire_bool(codec, &message->binary);
	wire_bool(codec, &message->created);
	wire_u64(codec, &message->size);
	wire_u64(codec, &message->lines);
	wire_u64(codec, &message->total_lines);
	wire_u64(codec, &message->count);
	wire_u64(codec, &message->files_searched);
	wire_u64(codec, &message->files_skipped);
	wire_u64(codec, &message->files_utf16);
	wire_text(codec, &message->type, LIMIT_NAME_BYTES);
	wire_text(codec, &message->version, FILES_VERSION_BYTES);
	wire_u64(codec, &message->first_line);
	wire_u64(codec, &message->ignored);
	wire_u64(codec, &message->disk_bytes);
	wire_u64(codec, &message->disk_limit);
	wire_refuse_if(codec, message->error >= TOOL_ERROR_COUNT);
}
