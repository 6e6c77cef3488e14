// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The cells are hostile and have no part in an exchange but to be ended and to
 * become ready.
 */
#include "supervisor/workspace/layers/workspace_layers.h"

#include "common/cleanup.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_state.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>

#define CLEARING_PAUSE_MS 100

enum swap_state {
	SWAP_WAITING,  /* for calls in flight */
	SWAP_ENDING,   /* for the end of the cell */
	SWAP_OPENING,  /* for the new one */
	SWAP_CLEARING, /* for room for that; the new stack is in force already */
	SWAP_UNDOING,  /* for the end of a cell that is not to stay */
};

struct workspace_swap {
	enum swap_state state;
	struct layer_stack next, previous;
	enum swap_way way;
	bool committed; /* the new stack is in force on disk */
	int64_t until;  /* in CLEARING: as clock_now() */
	struct timer deadline;
	struct workspace *workspace;
	enum tool_error error; /* of an exchange that has failed */
	char *why;
	workspace_swapped swapped;
	void *context;
};

static void tell_dropped(void *context, const char *tenant, const char *name)
{
	struct workspace *workspace = context;

	spawner_link_dropped(workspace->all->spawner, false, tenant, name);
}

static struct layers_place place_of(struct workspace *workspace)
{
	return (struct layers_place){.managed_fd = workspace->all->managed_fd,
		.tenant = workspace->tenant,
		.name = workspace->name,
		.dropped = tell_dropped,
		.context = workspace};
}

/* Has two layers made one, if there are many. It is put in force when no cell shows them. */
static void ask_to_fold(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	const uint32_t *numbers = workspace->layers.numbers;
	char path[NAME_MAX + 64];
	size_t high = 0;

	if (layers_to_fold(&place, &workspace->layers, &high) < 0 || high == 0)
		return;
	snprintf(path, sizeof(path), LAYERS_PREFIX "%s/%u-%u-%u", workspace->name, numbers[high],
		numbers[high - 1], numbers[high - 2]);
	spawner_link_fold(workspace->all->spawner,
		workspace->tenant->any_root ? "." : workspace->tenant->name, path);
}

int workspace_layers_read(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	int r = layers_read(&place, &workspace->layers);
	uint32_t taken_out;

	if (r == 0)
		r = layers_fold(&place, &workspace->layers, &taken_out);
	if (r < 0)
		return r;
	layers_tidy(&place, &workspace->layers);
	ask_to_fold(workspace);
	return 0;
}

/*
 * No cell shows the layers: what was made of two of them takes their place. It is one of those that
 * are not to change any more, so that what a preview goes back to has it, too.
 */
static void fold(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	struct workspace_swap *swap = workspace->swap;
	struct layer_stack kept = swap->way == SWAP_ROLLBACK ? swap->next : workspace->layers;
	uint32_t taken_out = 0;

	if (swap->way == SWAP_BACK || layers_fold(&place, &kept, &taken_out) < 0 || taken_out == 0)
		return;
	layer_stack_take_out(&workspace->layers, taken_out);
	layer_stack_take_out(&swap->next, taken_out);
}

size_t workspace_checkpoints(const struct workspace *workspace)
{
	return workspace->layers.count > 0 ? workspace->layers.count - 1 : 0;
}

bool workspace_has_checkpoint(const struct workspace *workspace, int64_t number)
{
	for (size_t i = 0; i + 1 < workspace->layers.count; i++)
		if ((int64_t)workspace->layers.numbers[i] + 1 == number)
			return true;
	return false;
}

uint32_t workspace_newest_checkpoint(const struct workspace *workspace)
{
	size_t count = workspace->layers.count;

	return count > 1 ? workspace->layers.numbers[count - 2] + 1 : 0;
}

int workspace_each_checkpoint(struct workspace *workspace,
	void (*each)(void *context, const struct checkpoint_info *checkpoint), void *context)
{
	const struct layers_place place = place_of(workspace);

	return layers_each(&place, &workspace->layers, each, context);
}

enum cell_need workspace_swap_need(const struct workspace *workspace)
{
	if (!workspace->swap_holds && workspace_calls_unparked(workspace))
		return CELL_CALLED;
	return workspace->swap->state == SWAP_OPENING ? CELL_CALLED : CELL_KEPT;
}

void workspace_swap_free(struct workspace *workspace)
{
	struct workspace_swap *swap = TAKE_PTR(workspace->swap);

	if (!swap)
		return;
	timer_cancel(&swap->deadline);
	free(swap->why);
	free(swap);
}

static void tidy(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);

	layers_tidy(&place, &workspace->layers);
}

static void finish_swap(struct workspace *workspace)
{
	struct workspace_swap *swap = TAKE_PTR(workspace->swap);

	workspace->swap_holds = false;
	timer_cancel(&swap->deadline);
	if (swap->way == SWAP_TRY)
		tidy(workspace);
	cell_settle(workspace->cell);
	swap->swapped(swap->context, swap->error, swap->why);
	free(swap->why);
	free(swap);
}

static void fail_swap(struct workspace_swap *swap, enum tool_error error, const char *why)
{
	swap->error = error;
	free(swap->why);
	/* Without memory the code's own sentence is shown. */
	swap->why = why ? strdup(why) : NULL;
}

/* The new cell does not come, or is not to stay. */
static void undo(struct workspace *workspace, enum tool_error error, const char *why)
{
	struct workspace_swap *swap = workspace->swap;

	fail_swap(swap, error, why);
	workspace->layers = swap->previous;
	swap->state = SWAP_UNDOING;
	cell_replace(workspace->cell, true);
	cell_settle(workspace->cell);
}

/* The new cell is open, and no call has begun in it. */
static void commit(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	struct workspace_swap *swap = workspace->swap;
	bool is_new = !swap->committed;
	int r;

	if (swap->way == SWAP_TRY) {
		undo(workspace, TOOL_OK, NULL);
		return;
	}
	r = is_new ? layers_commit(&place, &workspace->layers) : 0;

	if (r < 0) {
		undo(workspace, tool_error_from_errno(-r), NULL);
		return;
	}
	if (is_new) {
		layers_tidy(&place, &workspace->layers);
		/* The layer below a preview may change again. */
		if (swap->way != SWAP_PREVIEW)
			ask_to_fold(workspace);
	}
	finish_swap(workspace);
}

/*
 * The workspace's id has no room for a new layer: a rollback is in force before its cell is open,
 * so that what it drops is cleared, and makes room. The layers below the new one were shown before.
 */
static void make_room_for_layer(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	struct workspace_swap *swap = workspace->swap;
	int r = swap->committed ? 0 : layers_commit(&place, &workspace->layers);

	if (r < 0) {
		undo(workspace, tool_error_from_errno(-r), NULL);
		return;
	}
	if (!swap->committed) {
		swap->until = clock_now() + LIMIT_CHECKPOINT_WAIT_MS * CLOCK_NS_PER_MS;
		layers_tidy(&place, &workspace->layers);
	}
	swap->committed = true;
	swap->state = SWAP_CLEARING;
	timer_set(&swap->deadline, CLEARING_PAUSE_MS);
}

/* The layers were in force before, so no cell has to show first that they can be mounted. */
static void commit_unseen(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	int r = layers_commit(&place, &workspace->layers);

	if (r < 0) {
		workspace->layers = workspace->swap->previous;
		fail_swap(workspace->swap, tool_error_from_errno(-r), NULL);
	} else {
		layers_tidy(&place, &workspace->layers);
	}
	finish_swap(workspace);
}

static bool waits_for_calls(const struct workspace *workspace)
{
	if (workspace->swap->way == SWAP_PREVIEW)
		return workspace_calls_unparked(workspace);
	return workspace_calls_run(workspace);
}

void workspace_swap_advance(struct workspace *workspace)
{
	struct workspace_swap *swap = workspace->swap;
	bool is_closed = cell_status(workspace->cell) == CELL_STATUS_CLOSED;

	if (swap->state == SWAP_WAITING && !waits_for_calls(workspace)) {
		workspace_calls_end_watches(workspace);
		swap->state = SWAP_ENDING;
		workspace->swap_holds = true;
		cell_replace(workspace->cell, true);
		cell_settle(workspace->cell);
	}
	if (swap->state == SWAP_ENDING && is_closed) {
		timer_cancel(&swap->deadline);
		fold(workspace);
		swap->state = SWAP_OPENING;
		swap->previous = workspace->layers;
		workspace->layers = swap->next;
		cell_replace(workspace->cell, false);
		cell_settle(workspace->cell);
		if (swap->way == SWAP_BACK)
			commit_unseen(workspace);
	} else if (swap->state == SWAP_OPENING && cell_serves(workspace->cell, CELL_FILES)) {
		commit(workspace);
	} else if (swap->state == SWAP_UNDOING && is_closed) {
		cell_replace(workspace->cell, false);
		finish_swap(workspace);
	}
}

bool workspace_swap_lost(
	struct workspace *workspace, enum cell_loss loss, enum tool_error error, const char *why)
{
	struct workspace_swap *swap = workspace->swap;

	switch (swap->state) {
	case SWAP_WAITING:
		return false;
	case SWAP_ENDING:
		/* The kernel holds a killed process: the calls that wait are told so, too. */
		if (loss == CELL_HELD) {
			fail_swap(swap, error, why);
			finish_swap(workspace);
		}
		return false;
	case SWAP_OPENING:
		if (loss == CELL_OVER_QUOTA && swap->way == SWAP_ROLLBACK)
			make_room_for_layer(workspace);
		else if (!swap->committed)
			undo(workspace, error, why);
		else
			finish_swap(workspace); /* the next call has the cell made */
		return true;
	case SWAP_CLEARING:
		return true;
	default:
		if (loss != CELL_HELD)
			return true;
		finish_swap(workspace);
		return false;
	}
}

static void on_deadline(void *context)
{
	struct workspace_swap *swap = context;
	struct workspace *workspace = swap->workspace;

	/* Once more; but what is rolled back does not wait for its cell for long. */
	if (swap->state == SWAP_CLEARING && clock_now() < swap->until) {
		swap->state = SWAP_OPENING;
		cell_settle(workspace->cell);
		return;
	}
	if (swap->state == SWAP_CLEARING) {
		finish_swap(workspace);
		return;
	}
	cell_replace(workspace->cell, false);
	fail_swap(swap, TOOL_BUSY,
		"Calls are running in the workspace: wait for them, or cancel them, and try "
		"again");
	finish_swap(workspace);
}

void workspace_swap_give_up(struct workspace *workspace)
{
	struct workspace_swap *swap = workspace->swap;

	if (swap->state != SWAP_WAITING || swap->way == SWAP_BACK || !waits_for_calls(workspace))
		return;
	fail_swap(swap, TOOL_BUSY, WORKSPACE_SETTLES);
	finish_swap(workspace);
}

enum tool_error workspace_swap_begin(struct workspace *workspace, const struct layer_stack *next,
	enum swap_way way, workspace_swapped swapped, void *context, struct refusal *ret_refusal)
{
	struct workspace_swap *swap = calloc(1, sizeof(*swap));

	if (!swap)
		return refusal_set(ret_refusal, TOOL_BUSY, "Out of memory");
	*swap = (struct workspace_swap){.next = *next,
		.previous = workspace->layers,
		.way = way,
		.workspace = workspace,
		.error = TOOL_OK,
		.swapped = swapped,
		.context = context};
	timer_init(&swap->deadline, on_deadline, swap);
	/* The calls that a preview that is undone waits for have been cancelled, or are its own. */
	if (way != SWAP_BACK)
		timer_set(&swap->deadline, LIMIT_CHECKPOINT_WAIT_MS);
	workspace->swap = swap;
	workspace->swap_holds = way != SWAP_PREVIEW;
	cell_settle(workspace->cell);
	return TOOL_OK;
}

static enum tool_error check_swap(const struct workspace *workspace, struct refusal *ret_refusal)
{
	if (workspace->kind != WORKSPACE_MANAGED)
		return refusal_set(ret_refusal, TOOL_FORBIDDEN, WORKSPACE_NOT_MANAGED);
	if (workspace->removing)
		return refusal_set(ret_refusal, TOOL_BUSY, "The workspace is being removed");
	if (workspace->all->settling)
		return refusal_set(ret_refusal, TOOL_BUSY, WORKSPACE_SETTLES);
	if (workspace->swap || workspace->freeze || workspace->preview)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"Another checkpoint, rollback or preview of the workspace is on its way");
	return TOOL_OK;
}

/* Puts a new layer on top of @stack. */
static enum tool_error add_layer(
	struct workspace *workspace, struct layer_stack *stack, struct refusal *ret_refusal)
{
	const struct layers_place place = place_of(workspace);
	const struct layer_stack *now = &workspace->layers;
	uint32_t last = now->count > 0 ? now->numbers[now->count - 1] : 0;
	int r;

	if (last >= LIMIT_LAYER_NUMBER)
		return refusal_set(ret_refusal, TOOL_QUOTA_EXCEEDED,
			"The workspace has used up its checkpoints: copy its files to a new one");
	stack->numbers[stack->count++] = last + 1;
	r = layers_make(&place, stack);
	if (r == -EBUSY)
		return refusal_set(ret_refusal, TOOL_BUSY,
			"Many dropped layers are still being cleared, and no more are made until "
			"then; try again later");
	return r < 0 ? refusal_set(ret_refusal, tool_error_from_errno(-r), NULL) : TOOL_OK;
}

/* Makes the layers of a checkpoint with @label, which freezes all that there is. */
static enum tool_error make_checkpoint(struct workspace *workspace, struct text label,
	struct layer_stack *ret_next, struct refusal *ret_refusal)
{
	const struct layers_place place = place_of(workspace);
	struct layer_stack next = workspace->layers;
	enum tool_error error = check_swap(workspace, ret_refusal);
	uint32_t frozen;
	int r;

	if (error != TOOL_OK)
		return error;
	if (next.count == LIMIT_LAYERS)
		return refusal_format(ret_refusal, TOOL_QUOTA_EXCEEDED,
			"The workspace has %d checkpoints, which is the limit: roll back to one of "
			"them, or copy its files to a new workspace",
			LIMIT_LAYERS - 1);
	if (next.count == 0)
		next.count = 1;
	frozen = next.numbers[next.count - 1];
	error = add_layer(workspace, &next, ret_refusal);
	if (error != TOOL_OK)
		return error;
	r = layers_label(&place, frozen, label);
	if (r < 0)
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	*ret_next = next;
	return TOOL_OK;
}

enum tool_error workspace_checkpoint(struct workspace *workspace, struct text label,
	workspace_swapped swapped, void *context, uint32_t *ret_number, struct refusal *ret_refusal)
{
	struct layer_stack next = {0};
	enum tool_error error = make_checkpoint(workspace, label, &next, ret_refusal);

	if (error != TOOL_OK)
		return error;
	*ret_number = next.numbers[next.count - 2] + 1;
	return workspace_swap_begin(workspace, &next, SWAP_CHANGE, swapped, context, ret_refusal);
}

enum tool_error workspace_layers_preview(struct workspace *workspace, workspace_swapped swapped,
	void *context, struct refusal *ret_refusal)
{
	const struct layers_place place = place_of(workspace);
	struct layer_stack next = {0};
	enum tool_error error =
		make_checkpoint(workspace, (struct text){NULL, 0}, &next, ret_refusal);
	int r;

	if (error != TOOL_OK)
		return error;
	r = layers_preview(&place, next.numbers[next.count - 1]);
	if (r < 0)
		return refusal_set(ret_refusal, tool_error_from_errno(-r), NULL);
	return workspace_swap_begin(workspace, &next, SWAP_PREVIEW, swapped, context, ret_refusal);
}

int workspace_layers_keep(struct workspace *workspace)
{
	const struct layers_place place = place_of(workspace);
	int r = layers_keep(&place, workspace->layers.numbers[workspace->layers.count - 1]);

	if (r == 0)
		ask_to_fold(workspace);
	return r;
}

enum tool_error workspace_roll_back(struct workspace *workspace, uint32_t number,
	workspace_swapped swapped, void *context, struct refusal *ret_refusal)
{
	struct layer_stack next = workspace->layers;
	enum tool_error error = check_swap(workspace, ret_refusal);
	size_t i = 0;

	if (error != TOOL_OK)
		return error;
	while (i + 1 < next.count && next.numbers[i] + 1 != number)
		i++;
	if (i + 1 >= next.count)
		return refusal_set(ret_refusal, TOOL_NOT_FOUND,
			"The workspace has no such checkpoint: workspace.checkpoints lists them");
	next.count = (uint32_t)i + 1;
	error = add_layer(workspace, &next, ret_refusal);
	return error != TOOL_OK ? error
				: workspace_swap_begin(workspace, &next, SWAP_ROLLBACK, swapped,
					  context, ret_refusal);
}

enum tool_error workspace_try_foreign(struct workspace *workspace, workspace_swapped swapped,
	void *context, struct refusal *ret_refusal)
{
	const struct layers_place place = place_of(workspace);
	struct layer_stack next = workspace->layers;
	enum tool_error error = check_swap(workspace, ret_refusal);
	int r;

	if (error == TOOL_OK && next.count + 2 > LIMIT_LAYERS)
		error = refusal_set(ret_refusal, TOOL_BUSY, NULL);
	if (error != TOOL_OK)
		return error;
	if (next.count == 0)
		next.count = 1;
	error = add_layer(workspace, &next, ret_refusal);
	if (error != TOOL_OK)
		return error;
	r = layers_make_foreign(&place, &next);
	next.numbers[next.count] = next.numbers[next.count - 1] + 1;
	next.count++;
	if (r == 0)
		r = layers_make(&place, &next);
	return r < 0 ? refusal_set(ret_refusal, tool_error_from_errno(-r), NULL)
		     : workspace_swap_begin(
			       workspace, &next, SWAP_TRY, swapped, context, ret_refusal);
}
