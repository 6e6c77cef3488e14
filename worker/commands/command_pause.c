// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker. */
#include "worker/commands/command_pause.h"

#include "common/io.h"

#include "common/wire/channel.h"
#include "common/wire/wire_commands.h"
#include "worker/commands/command_cgroup.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/*
 * Between two looks. The kernel tells of a change of cgroup.events by poll(2), too, but would have
 * to be asked so for each command.
 */
#define STEP_MAX_MS 16

/* One write, which the writes of inits to this socket cannot divide. */
static int tell_pause(struct command_pause_state *pause, bool all)
{
	uint8_t frame[WIRE_HEADER_SIZE + COMMAND_PAUSED_SIZE];
	struct wire_writer writer = wire_writer(frame + WIRE_HEADER_SIZE, COMMAND_PAUSED_SIZE);
	const struct wire_header header = {.version = WIRE_VERSION,
		.type = COMMAND_PAUSED,
		.length = COMMAND_PAUSED_SIZE,
		.call = pause->number};

	if (pause->told)
		return 0;
	pause->told = true;
	command_paused_put(&writer, &(struct command_paused){.all = all});
	memcpy(frame, &header, sizeof(header));
	return io_write(pause->report_fd, frame, sizeof(frame), IO_POSITION);
}

static void end_command_pause(struct command_pause_state *pause)
{
	pause->on = false;
	(void)command_cgroups_freeze(pause->cgroups, false);
}

int command_pause_handle(
	struct command_pause_state *pause, const struct channel_frame *frame, int64_t now_ms)
{
	struct command_pause message;

	if (frame->n_fds > 0 || command_pause_get(frame->payload, &message) < 0)
		return -EBADMSG;
	if (message.ms == 0) {
		if (pause->on && pause->number == frame->call)
			end_command_pause(pause);
		return 0;
	}
	if (pause->on)
		return -EBADMSG;
	pause->on = true;
	pause->told = false;
	pause->number = frame->call;
	pause->until = now_ms + message.ms;
	pause->step_ms = 1;
	if (command_cgroups_freeze(pause->cgroups, true) == 0)
		return 0;
	end_command_pause(pause);
	return tell_pause(pause, false);
}

int command_pause_look(struct command_pause_state *pause, int64_t now_ms, int *ret)
{
	int64_t left = pause->until - now_ms;
	int r = 0;

	*ret = -1;
	if (!pause->on)
		return 0;
	if (left <= 0) {
		end_command_pause(pause);
		return tell_pause(pause, false);
	}
	if (!pause->told && command_cgroups_are_frozen(pause->cgroups))
		r = tell_pause(pause, true);
	if (!pause->told) {
		left = pause->step_ms < left ? pause->step_ms : left;
		if (pause->step_ms < STEP_MAX_MS)
			pause->step_ms *= 2;
	}
	*ret = (int)left;
	return r;
}
