// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The worker is not trusted: it says what it likes, once for each pause. */
#include "supervisor/workspace/workspace_pause.h"

#include "common/wire/channel.h"
#include "common/wire/wire_commands.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/clock.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace_state.h"

#include <errno.h>

#define STEP_MIN_NS (20 * CLOCK_NS_PER_MS)

static void tell_worker(struct workspace *workspace, int64_t ms)
{
	const struct command_pause message = {.ms = (uint32_t)ms};
	uint8_t payload[8];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	if (!cell_serves(workspace->cell, CELL_WORKER))
		return; /* it has no commands any more */
	command_pause_put(&writer, &message);
	workspace_send_worker(workspace, COMMAND_PAUSE, workspace->pause.number,
		(struct text){(char *)payload, writer.len}, NULL, 0);
}

bool workspace_pause_end(struct workspace *workspace)
{
	struct workspace_pause *pause = &workspace->pause;
	struct tenant_usage *usage = workspace->tenant->usage;
	bool whole = pause->state == PAUSE_ON;

	if (pause->state == PAUSE_NONE)
		return false;
	pause->state = PAUSE_NONE;
	timer_cancel(&pause->timer);
	tell_worker(workspace, 0);
	pause->stopped_ns += clock_now() - pause->began;
	usage->pauses++;
	usage->paused_us += (uint64_t)(clock_now() - pause->began) / CLOCK_NS_PER_US;
	cell_settle(workspace->cell); /* calls that write go on */
	return whole;
}

bool workspace_measure(struct workspace *workspace, bool prompt)
{
	uint8_t payload[FILES_SWEEP_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	if (!cell_serves(workspace->cell, CELL_FILES))
		return false;
	files_sweep_put(&writer, &(struct files_sweep){.prompt = prompt});
	workspace_send_files(workspace, FILES_SWEEP, 0, (struct text){(char *)payload, writer.len});
	return true;
}

/* What is not done goes on while commands do. */
static void on_over(void *context)
{
	struct workspace *workspace = context;

	if (!workspace_pause_end(workspace))
		(void)workspace_measure(workspace, true);
}

void workspace_pause_init(struct workspace *workspace)
{
	timer_init(&workspace->pause.timer, on_over, workspace);
}

void workspace_pause_begin(struct workspace *workspace, int64_t ms)
{
	static uint64_t last;
	struct workspace_pause *pause = &workspace->pause;

	(void)workspace_pause_end(workspace);
	pause->state = PAUSE_ASKED;
	pause->number = ++last;
	pause->began = clock_now();
	timer_set(&pause->timer, (unsigned)ms);
	/* The worker's time begins later, and so ends later. */
	tell_worker(workspace, ms);
}

int64_t workspace_stopped_ns(const struct workspace *workspace)
{
	const struct workspace_pause *pause = &workspace->pause;

	return pause->stopped_ns + (pause->state == PAUSE_NONE ? 0 : clock_now() - pause->began);
}

bool workspace_were_stopped(
	const struct workspace *workspace, int64_t *stopped_ns, struct timer *timer)
{
	int64_t before = *stopped_ns, left;

	*stopped_ns = workspace_stopped_ns(workspace);
	left = timer->due + *stopped_ns - before - clock_now();
	if (*stopped_ns == before || left <= 0)
		return false;
	/* While they are stopped it expires again and again, but not without a rest. */
	timer_set_ns(timer, left > STEP_MIN_NS ? left : STEP_MIN_NS);
	return true;
}

void workspace_pause_advance(struct workspace *workspace)
{
	if (workspace->pause.state != PAUSE_WRITES || workspace->running[CALL_CLASS_WRITE] > 0)
		return;
	workspace->pause.state = PAUSE_ON;
	(void)workspace_measure(workspace, true);
}

int workspace_pause_told(struct workspace *workspace, const struct channel_frame *frame)
{
	struct workspace_pause *pause = &workspace->pause;
	struct command_paused message;

	if (command_paused_get(frame->payload, &message) < 0)
		return -EBADMSG;
	/* An answer to one that is over, as a rule; but a long series of them is a fault. */
	if (pause->state != PAUSE_ASKED || pause->number != frame->call)
		return ++workspace->unknown_call_frames > LIMIT_UNKNOWN_CALL_FRAMES ? -EBADMSG : 0;
	if (message.all) {
		pause->state = PAUSE_WRITES;
		workspace_pause_advance(workspace);
	} else {
		on_over(workspace);
	}
	return 0;
}
