// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process. cloisterd has read the patch; its parts are decoded strictly. */
#include "common/wire/wire.h"
#include "common/wire/wire_files.h"
#include "worker/files/edit/patch_plan.h"

#include <errno.h>
#include <stdlib.h>

static bool is_lines(struct text text)
{
	return text.len > 0 && text.data[text.len - 1] == '\n';
}

static int begin_patch_file(struct patch *patch, const struct patch_part *part, uint8_t operation)
{
	if (patch->n_files == LIMIT_PATCH_FILES || part->text.len == 0 ||
		part->text.len > LIMIT_PATH_BYTES)
		return -EBADMSG;
	patch->files[patch->n_files++] =
		(struct patch_file){.operation = operation, .path = part->text, .parts = part + 1};
	return 0;
}

/* A part of an update's hunks. */
static int add_hunk_part(struct patch_file *file, const struct patch_part *part)
{
	const uint8_t before = file->n_parts > 0 ? part[-1].type : 0;
	bool fits = false;

	switch (part->type) {
	case PATCH_PART_HUNK:
		fits = part->text.len == 0 && before != PATCH_PART_HUNK &&
		       before != PATCH_PART_ANCHOR;
		break;
	case PATCH_PART_ANCHOR:
		fits = part->text.len > 0 && !memchr(part->text.data, '\n', part->text.len) &&
		       (before == PATCH_PART_HUNK || before == PATCH_PART_ANCHOR);
		break;
	case PATCH_PART_AT_END:
		fits = part->text.len == 0 &&
		       (before == PATCH_PART_CONTEXT || before == PATCH_PART_REMOVED ||
			       before == PATCH_PART_ADDED);
		break;
	default:
		fits = is_lines(part->text) && before != 0 && before != PATCH_PART_AT_END &&
		       before != part->type;
		break;
	}
	file->n_parts++;
	return fits ? 0 : -EBADMSG;
}

static int add_part(struct patch *patch, const struct patch_part *part)
{
	struct patch_file *file = patch->n_files > 0 ? &patch->files[patch->n_files - 1] : NULL;

	switch (part->type) {
	case PATCH_PART_ADD:
		return begin_patch_file(patch, part, FILES_ADD);
	case PATCH_PART_DELETE:
		return begin_patch_file(patch, part, FILES_DELETE);
	case PATCH_PART_UPDATE:
		return begin_patch_file(patch, part, FILES_UPDATE);
	case PATCH_PART_MOVE:
		if (!file || file->operation != FILES_UPDATE || file->n_parts > 0 ||
			part->text.len == 0 || part->text.len > LIMIT_PATH_BYTES)
			return -EBADMSG;
		file->operation = FILES_MOVE;
		file->to = part->text;
		file->parts = part + 1;
		return 0;
	default:
		break;
	}
	if (file && file->operation == FILES_ADD && part->type == PATCH_PART_ADDED &&
		file->lines.len == 0 && is_lines(part->text)) {
		file->lines = part->text;
		return 0;
	}
	if (!file || (file->operation != FILES_UPDATE && file->operation != FILES_MOVE))
		return -EBADMSG;
	return add_hunk_part(file, part);
}

/* Whether each file says what is to be done, and each hunk has lines. */
static bool is_whole(const struct patch *patch)
{
	for (size_t i = 0; i < patch->n_files; i++) {
		const struct patch_file *file = &patch->files[i];
		const uint8_t last = file->n_parts > 0 ? file->parts[file->n_parts - 1].type : 0;

		if ((file->operation == FILES_UPDATE && file->n_parts == 0) ||
			last == PATCH_PART_HUNK || last == PATCH_PART_ANCHOR)
			return false;
	}
	return patch->n_files > 0;
}

static bool is_known(uint8_t type)
{
	return type != 0 && strchr("AUDMH@ -+E", type) != NULL;
}

int patch_read(struct patch *patch, struct text body)
{
	struct wire_reader reader = wire_reader(body.data, body.len), count = reader;
	size_t n_parts = 0;

	*patch = (struct patch){0};
	while (count.left > 0 && !count.failed && n_parts++ < LIMIT_PATCH_PARTS) {
		if (!is_known(wire_get_u8(&count)))
			return -EBADMSG;
		(void)wire_get_text(&count, LIMIT_PATCH_BYTES);
	}
	if (n_parts == 0 || wire_reader_end(&count) < 0)
		return -EBADMSG;
	patch->parts = calloc(n_parts, sizeof(*patch->parts));
	if (!patch->parts)
		return -ENOMEM;
	for (; patch->n_parts < n_parts; patch->n_parts++) {
		struct patch_part *part = &patch->parts[patch->n_parts];

		part->type = wire_get_u8(&reader);
		part->text = wire_get_text(&reader, LIMIT_PATCH_BYTES);
		if (add_part(patch, part) < 0) {
			patch_done(patch);
			return -EBADMSG;
		}
	}
	if (is_whole(patch))
		return 0;
	patch_done(patch);
	return -EBADMSG;
}

void patch_done(struct patch *patch)
{
	free(patch->parts);
	*patch = (struct patch){0};
}
