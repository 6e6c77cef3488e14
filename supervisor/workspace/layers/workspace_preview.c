// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The cell is hostile, and has no part in what becomes of its changes. */
#include "supervisor/workspace/layers/workspace_preview.h"

#include "common/cleanup.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_state.h"

#include <assert.h>
#include <stdlib.h>

void workspace_preview_free(struct workspace *workspace)
{
	struct workspace_preview *preview = TAKE_PTR(workspace->preview);

	if (!preview)
		return;
	free(preview->why);
	free(preview);
}

/* What has waited for its end goes on. */
static void end_preview(struct workspace *workspace)
{
	struct workspace_entry *entry;

	workspace_preview_free(workspace);
	TAILQ_FOREACH (entry, &workspace->entries, link)
		if (entry->parked)
			workspace_unpark(workspace, entry);
	cell_settle(workspace->cell);
}

/* Tells the one who has it undone; that may end the preview. */
static void tell_undone(struct workspace *workspace, enum tool_error error, const char *why)
{
	struct workspace_preview *preview = workspace->preview;
	workspace_swapped undone = preview->undone;
	void *context = preview->context;

	preview->unwanted = false;
	if (error == TOOL_OK)
		end_preview(workspace);
	undone(context, error, why);
}

static void on_undone(void *context, enum tool_error error, const char *why)
{
	struct workspace *workspace = context;

	workspace->preview->state = PREVIEW_OPEN;
	tell_undone(workspace, error, why);
}

static void undo(struct workspace *workspace)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct layer_stack before = workspace->layers;

	layer_stack_pop(&before);
	workspace->preview->state = PREVIEW_ENDING;
	if (workspace_swap_begin(workspace, &before, SWAP_BACK, on_undone, workspace, &refusal) !=
		TOOL_OK)
		on_undone(workspace, refusal.error, refusal_text(&refusal));
}

static void on_made(void *context, enum tool_error error, const char *why)
{
	struct workspace *workspace = context;
	struct workspace_preview *preview = workspace->preview;

	preview->state = error == TOOL_OK ? PREVIEW_OPEN : PREVIEW_FAILED;
	preview->error = error;
	/* Without memory the code's own sentence is shown. */
	preview->why = why ? strdup(why) : NULL;
	cell_settle(workspace->cell);
	if (preview->unwanted && error == TOOL_OK)
		undo(workspace);
	else if (preview->unwanted)
		tell_undone(workspace, TOOL_OK, NULL);
}

enum tool_error workspace_preview_begin(
	struct workspace *workspace, uint32_t *ret_checkpoint, struct refusal *ret_refusal)
{
	uint32_t count = workspace->layers.count;
	uint32_t top = count > 0 ? workspace->layers.numbers[count - 1] : 0;
	struct workspace_preview *preview = calloc(1, sizeof(*preview));
	enum tool_error error =
		preview ? workspace_layers_preview(workspace, on_made, workspace, ret_refusal)
			: refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");

	if (error != TOOL_OK) {
		free(preview);
		return error;
	}
	workspace->preview = preview;
	*ret_checkpoint = top + 1;
	return TOOL_OK;
}

bool workspace_has_preview(const struct workspace *workspace)
{
	return workspace->preview;
}

bool workspace_preview_is_open(const struct workspace *workspace)
{
	return workspace->preview && workspace->preview->state == PREVIEW_OPEN;
}

int workspace_preview_keep(struct workspace *workspace)
{
	int r;

	assert(workspace_preview_is_open(workspace));
	r = workspace_layers_keep(workspace);
	if (r == 0)
		end_preview(workspace);
	return r;
}

void workspace_preview_undo(struct workspace *workspace, workspace_swapped undone, void *context)
{
	struct workspace_preview *preview = workspace->preview;

	assert(preview->state == PREVIEW_MAKING || preview->state == PREVIEW_OPEN);
	preview->unwanted = true;
	preview->undone = undone;
	preview->context = context;
	if (preview->state == PREVIEW_OPEN)
		undo(workspace);
}

void workspace_preview_abandon(struct workspace *workspace)
{
	workspace->preview->unwanted = true;
}

bool workspace_preview_forget(struct workspace *workspace)
{
	if (!workspace->preview || workspace->preview->state != PREVIEW_FAILED)
		return false;
	end_preview(workspace);
	return true;
}

enum tool_error workspace_preview_refusal(
	struct workspace *workspace, bool own, struct refusal *ret_refusal)
{
	const struct workspace_preview *preview = workspace->preview;

	if (preview && preview->state == PREVIEW_OPEN && preview->unwanted)
		undo(workspace); /* which has failed before */
	preview = workspace->preview;
	if (!preview || preview->state == PREVIEW_ENDING || preview->state == PREVIEW_FAILED ||
		(preview->state == PREVIEW_MAKING && preview->unwanted))
		return TOOL_OK;
	if (preview->unwanted)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"The changes of a preview that nobody has committed could not be undone; "
			"try again later");
	return refusal_set(ret_refusal, TOOL_BUSY,
		own ? "A preview is open in the workspace: transaction.commit keeps its changes, "
		      "transaction.discard undoes them, and until then nothing else is done here"
		    : "Another client's preview is open in the workspace: try again when it has "
		      "been committed or discarded, which the end of that client's connection "
		      "does too");
}

void workspace_preview_advance(struct workspace *workspace)
{
	struct workspace_preview *preview = workspace->preview;
	struct workspace_entry *entry, *lost = NULL;
	_cleanup_free_ char *why = NULL;

	if (preview->state != PREVIEW_OPEN && preview->state != PREVIEW_FAILED)
		return;
	TAILQ_FOREACH (entry, &workspace->entries, link) {
		if (!entry->parked)
			continue;
		if (entry->inside && preview->state == PREVIEW_FAILED)
			lost = entry;
		else if (entry->inside == (preview->state == PREVIEW_OPEN))
			workspace_unpark(workspace, entry);
	}
	/* There is one at most: the preview's call. The preview may be gone afterwards. */
	if (!lost)
		return;
	why = TAKE_PTR(preview->why);
	workspace_lose(workspace, lost, preview->error, why);
}
