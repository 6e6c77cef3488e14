// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, before it serves anybody: it may wait here. common/wire/wire_spawner.h. */
#include "supervisor/cell/spawner_begin.h"

#include "common/cleanup.h"
#include "common/wire/channel.h"
#include "common/wire/fixed_fds.h"
#include "common/wire/wire_spawner.h"
#include "supervisor/cell/helper_process.h"
#include "supervisor/host/id_range.h"
#include "supervisor/host/namespaces_probe.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define READY_TIMEOUT_MS 10000

static int start_process(const struct spawner_start *start, struct helper_process *ret_process,
	struct channel *ret_channel)
{
	char *argv[] = {(char *)"cloister-spawner", (char *)(start->range ? "system" : "user"),
		(char *)(start->config ? start->config : ""),
		(char *)(start->readonly ? start->readonly : ""), NULL, NULL, NULL};
	unsigned argc = 4;
	const int more[] = {start->managed_fd, start->cgroup_fd};
	int ours, r;

	if (start->network)
		argv[argc++] = (char *)"egress";
	if (start->beside)
		argv[argc] = (char *)"beside";
	r = helper_process_start(
		ret_process, argv[0], argv, more, start->cgroup_fd < 0 ? 1 : 2, &ours);
	if (r < 0)
		return r;
	channel_init(ret_channel, ours, ours, CHANNEL_TAKES_FDS);
	return 0;
}

_Static_assert(FD_SPAWNER_CHANNEL == 3 && FD_SPAWNER_MANAGED == 4 && FD_SPAWNER_CGROUP == 5,
	"helper_process_start() gives them");

static bool is_policy(uint32_t error)
{
	return error == EPERM || error == EACCES || error == ENOSPC;
}

static int next_frame(struct channel *channel, struct channel_frame *ret)
{
	struct pollfd poll_fd = {.fd = channel->in, .events = POLLIN};
	int r;

	while ((r = channel_next(channel, ret)) == 0) {
		if (poll(&poll_fd, 1, READY_TIMEOUT_MS) <= 0)
			return -ETIMEDOUT;
		r = channel_fill(channel, WIRE_FRAME_MAX);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}

static int give_ids(
	struct channel *channel, pid_t pid, const struct id_range *range, char **ret_message)
{
	int r = range ? id_range_map(range, pid, ret_message) : -EBADMSG;

	if (r == 0)
		r = channel_send(channel, SPAWNER_MAPPED, 0, (struct text){NULL, 0}, NULL, 0);
	return r < 0 ? r : channel_flush(channel);
}

/*
 * Waits for the first messages: the spawner is in its namespaces, or why not; in system mode it
 * first asks for its id maps.
 */
static int wait_until_ready(
	struct channel *channel, pid_t pid, const struct id_range *range, char **ret_message)
{
	struct setup_failure failure;
	struct channel_frame frame;
	int r = next_frame(channel, &frame);

	if (r == 0 && frame.type == SPAWNER_UNSHARED) {
		r = give_ids(channel, pid, range, ret_message);
		range = NULL;
		if (r == 0)
			r = next_frame(channel, &frame);
	}
	if (r < 0 || (frame.type == SPAWNER_READY && !range))
		return r;
	if (frame.type != SPAWNER_FAILED || setup_failure_get(frame.payload, &failure) < 0)
		return -EBADMSG;
	if (asprintf(ret_message, "cloister-spawner could not %.*s: %s%s%s", (int)failure.step.len,
		    failure.step.data, strerror((int)failure.error),
		    is_policy(failure.error) ? ": " : "",
		    is_policy(failure.error) ? namespaces_remedy("/proc/sys", (int)failure.error)
					     : "") < 0)
		*ret_message = NULL;
	return -(int)failure.error;
}

int spawner_begin(const struct spawner_start *start, struct helper_process *ret_process,
	struct channel *ret_channel, char **ret_message)
{
	int r = start_process(start, ret_process, ret_channel);

	return r < 0 ? r
		     : wait_until_ready(ret_channel, ret_process->pid, start->range, ret_message);
}
