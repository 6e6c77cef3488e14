// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. A files process that was taken over can lie about what is measured, not about
 * what the kernel refuses.
 */
#include "supervisor/workspace/workspace_disk.h"

#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/network/listening.h"
#include "supervisor/workspace/workspace_pause.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>

const char *disk_enforcer_name(enum disk_enforcer enforcer)
{
	static const char *const names[] = {
		[DISK_ENFORCER_NONE] = "none",
		[DISK_ENFORCER_MEASURED] = "measured",
		[DISK_ENFORCER_QUOTA] = "quota",
	};

	return names[enforcer];
}

struct disk_state workspace_disk(const struct workspace *workspace)
{
	const struct disk_use *use = &workspace->disk;
	const struct disk_class *class = &workspace->tenant->disk;
	uint64_t quota = cell_disk_limit(workspace->cell);
	struct disk_state state = {.known = use->known,
		.bytes = use->bytes + workspace->streaming + workspace->streamed,
		.limit = quota > 0 ? quota : class->bytes,
		.layers = workspace->layers.count > 0};

	if (quota > 0)
		state.enforcer = DISK_ENFORCER_QUOTA;
	else if (class->bytes > 0)
		state.enforcer = DISK_ENFORCER_MEASURED;
	state.over_files =
		use->known && class->files > 0 && disk_use_size(use).files > class->files;
	state.hidden = use->known && use->hidden;
	return state;
}

bool disk_state_is_over(const struct disk_state *state)
{
	return state->enforcer == DISK_ENFORCER_MEASURED && state->known &&
	       (state->bytes > state->limit || state->over_files || state->hidden);
}

void workspace_disk_told(struct workspace *workspace, const struct files_end *end)
{
	if (end->disk_limit == 0)
		return;
	disk_use_told(&workspace->disk, end->disk_bytes);
	workspace_disk_count(workspace);
}

void workspace_disk_stream(struct workspace *workspace, int64_t bytes)
{
	workspace->streaming += (uint64_t)bytes;
}

void workspace_disk_stream_ended(struct workspace *workspace, uint64_t bytes, bool kept)
{
	workspace->streaming -= bytes;
	workspace->streamed += kept ? bytes : 0;
}

void workspace_disk_uncount(struct workspace *workspace)
{
	workspace->tenant->usage->disk_bytes -= workspace->disk_counted;
	workspace->disk_counted = 0;
}

void workspace_disk_count(struct workspace *workspace)
{
	workspace_disk_uncount(workspace);
	workspace->disk_counted = workspace->disk.bytes;
	workspace->tenant->usage->disk_bytes += workspace->disk_counted;
}

struct disk_size disk_hard_limit(const struct tenant *tenant)
{
	const struct disk_class *class = &tenant->disk;

	return (struct disk_size){class->bytes + class->bytes / LIMIT_DISK_OVER_PART,
		class->files + class->files / LIMIT_DISK_OVER_PART};
}

static bool is_command(const struct workspace_entry *entry)
{
	return entry->class == CALL_CLASS_COMMAND || entry->class == CALL_CLASS_SESSION;
}

/* A sweep measures too. */
bool workspace_disk_ask(void *context, enum disk_ask what)
{
	struct workspace *workspace = context;

	if (what != DISK_ASK_FROZEN && what != DISK_ASK_NO_MORE)
		return workspace_measure(workspace, what == DISK_ASK_PROMPT);
	if (!cell_serves(workspace->cell, CELL_FILES))
		return false;
	if (what == DISK_ASK_FROZEN)
		workspace_pause_begin(workspace, workspace->disk.pause_ms);
	else
		workspace_send_files(workspace, FILES_CANCEL, 0, (struct text){NULL, 0});
	return true;
}

void workspace_disk_calls(struct workspace *workspace)
{
	workspace->disk.limited = workspace_disk(workspace).enforcer == DISK_ENFORCER_MEASURED;
	workspace->disk.pauses = workspace_has_cgroups(workspace);
	disk_use_runs(&workspace->disk, workspace->running[CALL_CLASS_COMMAND] > 0 ||
						workspace->running[CALL_CLASS_SESSION] > 0);
}

/*
 * Which command has written too much is not known, so it is all of them that have run for
 * @at_least_ms.
 */
static void end_commands(struct workspace *workspace, uint64_t at_least_ms)
{
	struct workspace_entry *entry, *next;

	for (entry = TAILQ_FIRST(&workspace->entries); entry; entry = next) {
		next = TAILQ_NEXT(entry, link);
		if (entry->begun && is_command(entry) && entry->owner->disk_full)
			entry->owner->disk_full(entry->context, at_least_ms);
	}
}

int workspace_disk_measured(struct workspace *workspace, struct text payload)
{
	struct disk_use *use = &workspace->disk;
	const bool was_hidden = use->hidden;
	struct files_end end;
	struct disk_size hard;
	uint64_t at_least_ms;

	if (files_end_get(payload, &end) < 0 ||
		disk_use_answer(use, &end, workspace_pause_end(workspace)) < 0)
		return -EBADMSG;
	workspace->streamed = 0;
	workspace_disk_count(workspace);
	if (workspace_disk(workspace).enforcer != DISK_ENFORCER_MEASURED)
		return 0;
	hard = disk_hard_limit(workspace->tenant);
	switch (disk_use_growth(use, &hard, &at_least_ms)) {
	case DISK_GROWTH_WRITTEN: /* commands that only remove files go on */
		end_commands(workspace, at_least_ms);
		return 0;
	case DISK_GROWTH_UNHIDDEN:
		/* One that is new may have opened what an earlier one has closed and filled, and
		 * has time to remove it. */
		end_commands(workspace,
			at_least_ms > LIMIT_DISK_HIDDEN_MS ? at_least_ms : LIMIT_DISK_HIDDEN_MS);
		return 0;
	case DISK_GROWTH_NONE:
		break;
	}
	/* Twice in a row: a test suite may close a directory for a moment. One that is new has time
	 * to open it. */
	if (was_hidden && use->hidden)
		end_commands(workspace, LIMIT_DISK_HIDDEN_MS);
	return 0;
}
