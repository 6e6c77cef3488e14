// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The files process is hostile: it cannot send more than it was asked for.
 * The client is hostile too.
 */
#include "supervisor/call/call_watch.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire/wire_files.h"
#include "supervisor/call/call_state.h"
#include "supervisor/workspace/workspace.h"

#include <errno.h>
#include <stdlib.h>

#define ASK_BYTES ((int64_t)(16 * KIB))
/* An event as JSON takes at most so many times its bytes: escapes, and base64 of the path. */
#define AS_JSON   8
#define ASK_LEAST ((int64_t)(4 * KIB))

struct call_watch {
	struct call *call;
	int64_t asked; /* bytes that were asked for and have not come; the last frame may exceed it
			*/
	bool told;     /* what is watched */
	struct unread_waiter room;
};

int call_watch_new(struct call *call)
{
	struct call_watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return -ENOMEM;
	watch->call = call;
	call->watch = watch;
	return 0;
}

static int64_t room_of(const struct call *call)
{
	const struct unread_account *account = call->room.account;
	uint64_t room;

	if (!account)
		return ASK_BYTES;
	room = account->full ? 0 : unread_room(account) / AS_JSON;
	return room < (uint64_t)ASK_BYTES ? (int64_t)room : ASK_BYTES;
}

static void ask_call_watch(struct call_watch *watch, int64_t bytes)
{
	struct call *call = watch->call;
	uint8_t payload[FILES_AMOUNT_SIZE];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	files_amount_put(&writer, &(struct files_amount){(uint64_t)bytes});
	watch->asked += bytes;
	workspace_send_files(call->workspace, FILES_MORE, call->entry.call,
		(struct text){(char *)payload, writer.len});
}

static void ask_more(void *context)
{
	struct call_watch *watch = context;
	struct call *call = watch->call;
	int64_t room;

	if (call->paused || call->state != CALL_RUNNING ||
		watch->asked > (int64_t)LIMIT_FILE_WATCH_WINDOW - ASK_BYTES)
		return;
	room = room_of(call);
	if (room >= ASK_LEAST) {
		ask_call_watch(watch, room);
	} else if (watch->asked <= 0) {
		watch->room.account = call->room.account;
		watch->room.wanted = (uint64_t)ASK_LEAST * AS_JSON;
		watch->room.act = ask_more;
		watch->room.context = watch;
		unread_wait(&watch->room);
	}
}

/* The files process is told to begin in the state before RUNNING. */
void call_watch_begin(struct call *call)
{
	ask_call_watch(call->watch, ASK_BYTES);
}

void call_watch_go_on(struct call *call)
{
	if (call->watch->told)
		ask_more(call->watch);
}

static int take_watched(struct call_watch *watch, struct text payload)
{
	struct call *call = watch->call;
	struct files_node node;

	if (watch->told || files_node_get(payload, &node) < 0)
		return -EBADMSG;
	watch->told = true;
	if (call->state == CALL_RUNNING && call->owner.watched)
		call->owner.watched(call->owner.context, &node);
	return 0;
}

static int take_event(struct call_watch *watch, struct text payload)
{
	struct call *call = watch->call;
	struct files_event event;

	if (!watch->told || files_event_get(payload, &event) < 0)
		return -EBADMSG;
	if (call->state == CALL_RUNNING && call->owner.event)
		call->owner.event(call->owner.context, &event);
	return 0;
}

int call_watch_frame(struct call *call, const struct channel_frame *frame)
{
	struct call_watch *watch = call->watch;
	int r;

	if (frame->type != FILES_NODE && frame->type != FILES_EVENT)
		return CALL_FRAME_OF_ANOTHER;
	if (watch->asked <= 0)
		return -EBADMSG;
	watch->asked -= (int64_t)(WIRE_HEADER_SIZE + frame->payload.len);
	r = frame->type == FILES_NODE ? take_watched(watch, frame->payload)
				      : take_event(watch, frame->payload);
	if (r == 0)
		ask_more(watch);
	return r;
}

void call_watch_end(struct call *call)
{
	unread_stop_waiting(&call->watch->room);
}

void call_watch_free(struct call *call)
{
	struct call_watch *watch = TAKE_PTR(call->watch);

	if (!watch)
		return;
	unread_stop_waiting(&watch->room);
	free(watch);
}

static void end_watch(void *context, struct call *call)
{
	(void)context;
	if (call_does_use(call, CALL_USES_WATCH))
		call_cancel(call, ENDED_BY_SHUTDOWN);
}

void call_watches_end(void)
{
	call_foreach(end_watch, NULL);
}
