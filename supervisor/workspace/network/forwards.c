// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The worker is not trusted: one that was taken over can end a forward, or keep
 * one counted for its own tenant.
 */
#include "supervisor/workspace/network/forwards.h"

#include "common/links.h"
#include "common/wire/channel.h"
#include "common/wire/wire_commands.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace_room.h"
#include "supervisor/workspace/workspace_state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

struct forward {
	LIST_ENTRY(forward) link;
	uint64_t number;
};

bool workspace_forwards_full(const struct workspace *workspace)
{
	return workspace->n_forwards >= LIMIT_FORWARDS_PER_WORKSPACE ||
	       workspace->tenant->usage->forwards >= LIMIT_FORWARDS;
}

bool workspace_serves_forwards(const struct workspace *workspace)
{
	return cell_serves(workspace->cell, CELL_WORKER);
}

int workspace_forward(struct workspace *workspace, uint16_t port, bool ipv6, int fd)
{
	static uint64_t last;
	const struct command_forward message = {
		.port = port, .ipv6 = ipv6, .idle_ms = LIMIT_FORWARD_IDLE_MS};
	struct forward *forward = calloc(1, sizeof(*forward));
	uint8_t payload[16];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	assert(workspace_serves_forwards(workspace));
	if (!forward) {
		close(fd);
		return -ENOMEM;
	}
	forward->number = ++last;
	LIST_LINK_HEAD(&workspace->forwards, forward, link);
	workspace->n_forwards++;
	workspace->tenant->usage->forwards++;
	workspace->tenant->usage->forwards_begun++;
	command_forward_put(&writer, &message);
	workspace_idle_follow(workspace);
	workspace_send_worker(workspace, COMMAND_FORWARD, forward->number,
		(struct text){(char *)payload, writer.len}, &fd, 1);
	return 0;
}

static void forget_forward(struct workspace *workspace, struct forward *forward)
{
	LIST_UNLINK(forward, link);
	assert(workspace->n_forwards > 0 && workspace->tenant->usage->forwards > 0);
	workspace->n_forwards--;
	workspace->tenant->usage->forwards--;
	free(forward);
}

int workspace_forward_ended(struct workspace *workspace, const struct channel_frame *frame)
{
	struct forward *forward;

	LIST_FOREACH (forward, &workspace->forwards, link)
		if (forward->number == frame->call)
			break;
	if (!forward || frame->payload.len > 0)
		return -EBADMSG;
	forget_forward(workspace, forward);
	workspace_idle_follow(workspace);
	return 0;
}

void workspace_end_forwards(struct workspace *workspace)
{
	while (!LIST_EMPTY(&workspace->forwards))
		forget_forward(workspace, LIST_FIRST(&workspace->forwards));
}
