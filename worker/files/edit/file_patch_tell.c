// SPDX-License-Identifier: Apache-2.0
/* Runs in the files process: what cloisterd is told of a patch, whose files are the tenant's. */
#include "worker/files/edit/file_patch_state.h"

#include "common/cleanup.h"
#include "worker/files/edit/file_version.h"
#include "worker/files/edit/patch_look.h"
#include "worker/files/file_write.h"

#include <stdio.h>

/* Writes what the patch replaces, as struct files_patched has it. */
static void write_replaced(const struct work *work, char found[FILES_FOUND_BYTES + 1])
{
	char version[FILES_VERSION_BYTES + 1] = FILE_WRITE_ABSENT;

	if (work->file->operation != FILES_ADD)
		file_version_of(file_source_text(&work->source), version);
	snprintf(found, FILES_FOUND_BYTES + 1, "%s%s", version,
		work->file->operation == FILES_MOVE ? "/" FILE_WRITE_ABSENT : "");
}

int patch_tell_plan(struct attempt *attempt)
{
	for (size_t i = 0; i < attempt->patch.n_files; i++) {
		const struct work *work = &attempt->works[i];
		const bool deletes = work->file->operation == FILES_DELETE;
		char version[FILES_VERSION_BYTES + 1], found[FILES_FOUND_BYTES + 1];
		int r;

		write_replaced(work, found);
		r = reply_patched(attempt->reply,
			&(struct files_patched){
				.index = (uint32_t)i,
				.operation = work->file->operation,
				.path = text_from(
					deletes ? work->place.path : file_write_path(work->staged)),
				.from = work->file->operation == FILES_MOVE
						? text_from(work->place.path)
						: (struct text){NULL, 0},
				.added = work->outcome.added,
				.removed = work->outcome.removed,
				.version = deletes ? (struct text){NULL, 0}
						   : text_from(file_version_of(
							     work->content, version)),
				.found = text_from(found),
			});
		if (r < 0)
			return r;
	}
	return 0;
}

int patch_tell_found(struct attempt *attempt)
{
	size_t budget = PATCH_LOOK_BYTES;
	int r = 0;

	for (size_t i = 0; r == 0 && i < attempt->patch.n_files; i++) {
		const struct patch_file *file = attempt->works[i].file;
		char found[FILES_FOUND_BYTES + 1];

		patch_look(attempt->request->root, file, &budget, found);
		r = reply_patched(attempt->reply,
			&(struct files_patched){
				.index = (uint32_t)i,
				.operation = file->operation,
				.path = file->operation == FILES_MOVE ? file->to : file->path,
				.from = file->operation == FILES_MOVE ? file->path
								      : (struct text){NULL, 0},
				.found = text_from(found),
			});
	}
	return r;
}

void patch_tell_step(struct attempt *attempt, size_t index, enum files_state state)
{
	const struct files_step step = {.index = (uint32_t)index, .state = (uint8_t)state};

	(void)reply_step(attempt->reply, &step);
}
