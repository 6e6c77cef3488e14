/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a call, for call.c (its life) and call_answer.c (its end). */

#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/call_result.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/workspace/workspace.h"

#include <sys/queue.h>

struct refusal;
struct command_ended;
struct command_input;

enum call_event {
	CALL_BEGIN, /* it has been scheduled */
	CALL_CANCEL,
	CALL_OVERDUE, /* the time of its state is over */
	CALL_SILENT,  /* a command has written nothing for its idle_timeout_ms */
	CALL_FRAME,   /* its process has sent a frame of it */
	CALL_LOST,    /* its process is lost, or could not be made */
	CALL_EVENTS,
};

/* What an event comes with. */
struct call_event_data {
	enum ended_by cause;               /* CALL_CANCEL */
	const struct channel_frame *frame; /* CALL_FRAME */
	enum tool_error error;             /* CALL_LOST; */
	const char *message;               /* likewise, may be NULL */
};

/* May free the call. -EBADMSG: CALL_FRAME broke the protocol. */
typedef int (*call_act)(struct call *call, const struct call_event_data *data);

/* What every event does in every state. */
extern const call_act call_acts[CALL_STATES][CALL_EVENTS];

/** In the place of events that cannot come in a state. */
int call_impossible(struct call *call, const struct call_event_data *data);

struct call {
	TAILQ_ENTRY(call) link;
	enum call_state state;
	struct service *service;
	struct workspace *workspace;
	struct workspace_entry entry;
	struct call_request request;
	struct call_owner owner;
	int64_t started;             /* as clock_now() */
	struct timer timer;          /* the deadline, then how long ENDING and KILLED may last */
	struct timer idle_timer;     /* of a command with idle_timeout_ms */
	uint64_t cancelled_at;       /* what process_link_said() was when the call was cancelled */
	enum ended_by cause;         /* why it was cancelled, or why it ended by itself */
	struct call_result result;   /* a file call's */
	struct command_io *io;       /* a command's */
	struct command_input *input; /* likewise; NULL: it has none */
	struct unread_waiter room;   /* for its answer; its account is NULL where nobody counts */
	size_t counted;              /* for the answer in any case, */
	size_t counted_result;       /* and for what a file call has brought */
	bool entered;                /* its workspace */
	bool paused;
	size_t sent; /* bytes of the request that the peer counts, if they wait there */
};

static inline bool call_is_command(const struct call *call)
{
	return call->request.tool->id == TOOL_RUN_COMMAND;
}

static inline uint64_t call_elapsed_us(const struct call *call)
{
	return (uint64_t)((clock_now() - call->started) / CLOCK_NS_PER_US);
}

/** Counts what was @counted of the call's memory for its answer as @now bytes. */
static inline void call_count(struct call *call, size_t *counted, size_t now)
{
	if (call->room.account)
		unread_recount(call->room.account, counted, now);
}

/** Takes its entry out of its workspace, where it has one. */
void call_leave(struct call *call);

/** Frees a call that has been answered, or was never begun. */
void call_free(struct call *call);
