/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of a call. call.c, which all files of calls use, uses them by two tables:
 * call_acts (call_acts.c) and call_hooks (call_hooks.c).
 */

#include "common/wire/wire_commands.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/keys/key_result.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/call/result/call_result.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/unread.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"

#include <sys/queue.h>

struct refusal;
struct command_ended;
struct key;
struct key_change;
struct command_input;
struct call_stream;
struct call_watch;

enum call_event {
	CALL_BEGIN, /* it has been scheduled */
	CALL_CANCEL,
	CALL_OVERDUE, /* the time of its state is over */
	CALL_SILENT,  /* a command has written nothing for its idle_timeout_ms */
	CALL_FRAME,   /* its process has sent a frame for it */
	CALL_LOST,    /* its process is lost, or could not be made */
	CALL_SUMMED,  /* cloister-egress has reported all about an ended command */
	CALL_DRAINED, /* all that an ended command has written has been read */
	CALL_HELD,    /* a process of a command holds the lock of one of its pipes */
	CALL_NOTED,   /* its beginning is in the journal, or could not be written */
	CALL_YIELD,   /* a command that has an heir has run for options.yield_ms */
	CALL_EVENTS,
};

/* The data of an event. */
struct call_event_data {
	enum ended_by cause;               /* for CALL_CANCEL */
	const struct channel_frame *frame; /* for CALL_FRAME */
	enum tool_error error;             /* for CALL_LOST */
	const char *message;               /* for CALL_LOST; may be NULL */
	int failure;                       /* for CALL_NOTED: 0 or -errno */
};

/* May free the call. Returns -EBADMSG if CALL_FRAME broke the protocol. */
typedef int (*call_act)(struct call *call, const struct call_event_data *data);

/* The action of every event in every state. */
extern const call_act call_acts[CALL_STATES][CALL_EVENTS];

/** The action of events that cannot occur in a state. */
int call_impossible(struct call *call, const struct call_event_data *data);

/* A feature of calls: a row of call_hooks, and a bit of call.uses. */
enum call_use {
	CALL_USES_DISK,     /* it writes files */
	CALL_USES_KEY,      /* options.key */
	CALL_USES_STREAM,   /* file.read or file.write */
	CALL_USES_WATCH,    /* file.watch */
	CALL_USES_RESULT,   /* of a file call */
	CALL_USES_OUTPUT,   /* of a command */
	CALL_USES_INPUT,    /* of a command */
	CALL_USES_CGROUP,   /* its command is held until that is known */
	CALL_USES_OWN_ROOM, /* it goes on without its client */
	CALL_USES,
};

struct call {
	TAILQ_ENTRY(call) link;
	enum call_state state;
	unsigned uses; /* a bit for each enum call_use */
	struct service *service;
	struct workspace *workspace;
	struct workspace_entry entry;
	struct call_request request;
	struct call_owner owner;
	int64_t started;         /* as clock_now() */
	struct timer timer;      /* the deadline; then the time limits of ENDING and KILLED */
	struct timer idle_timer; /* for a command with idle_timeout_ms */
	int64_t stopped_ns; /* workspace_stopped_ns() since its silence, or its order to end, began
			     */
	struct timer left_timer;     /* of a call with key_wait_ms whose client has left */
	struct timer yield_timer;    /* of a running command that has an heir */
	struct call_heir heir;       /* inherit NULL: it has none */
	int64_t grace_ms;            /* from SIGTERM to SIGKILL */
	uint64_t signalled_at;       /* as cancelled_at, at the last signal */
	unsigned n_signals;          /* sent since the worker is known to have read them */
	uint64_t cancelled_at;       /* process_link_said() at the time of the cancel */
	enum ended_by cause;         /* why it was cancelled, or why it ended by itself */
	struct call_result result;   /* of a file call */
	struct command_io *io;       /* of a command */
	struct command_input *input; /* of a command; NULL: it has none */
	struct call_stream *stream;  /* of file.read and file.write; otherwise NULL */
	struct call_watch *watch;    /* of file.watch; otherwise NULL */
	struct network_use network;  /* of a command */
	/*
	 * In SUMMING: how the command ended, unless its process is lost; and which reports are
	 * missing.
	 */
	struct command_ended ended;
	struct {
		enum tool_error error; /* TOOL_OK: it is not */
		char *message;         /* NULL: out of memory */
	} loss;
	bool sums, drains;
	bool pipe_held;            /* for too long: its cell was ended */
	struct unread_waiter room; /* for its answer; the account is NULL if it is not counted */
	size_t counted;            /* bytes counted for the answer in any case */
	size_t counted_result;     /* bytes counted for the result of a file call */
	bool entered;              /* it has an entry in its workspace */
	bool paused;
	struct key *key;           /* NULL: it has none, or it has joined another call */
	struct call *leader;       /* the call that it has joined */
	TAILQ_ENTRY(call) with;    /* in the leader's list */
	TAILQ_HEAD(, call) joined; /* calls that wait for this one's result */
	struct unread_account own; /* for the result of a call without a connection */
	bool left_behind;          /* it goes on without its client, and own is open */
	/* bytes of the request that wait to be sent and are counted with the process link */
	size_t sent;
	uint64_t held_size; /* of a held call: bytes of the present file */
	/* the present and the new version: the files process waits; NULL: it has not told */
	struct key_change *held;
	bool went;        /* it does not wait any more: the change was made, or is found made */
	bool made;        /* something was changed, according to the files process */
	bool lost;        /* its process is */
	bool is_gated;    /* its command waits until it is recorded in the journal */
	int record_error; /* -errno: that could not be written in time, and it does not begin */
};

/*
 * A feature that calls may use: a row of call_hooks. Features that a call does not use are not
 * asked. An element may be NULL.
 */
struct call_hook {
	/* The call is new: returns 0 or -ENOMEM. */
	int (*admit)(struct call *call);
	/* Its turn has come. Returns true if the call goes on later, or was answered and freed. */
	bool (*begin)(struct call *call);
	/*
	 * Its process has sent a frame. Returns CALL_FRAME_OF_ANOTHER, or 0 or -EBADMSG. May free
	 * the call.
	 */
	int (*frame)(struct call *call, const struct channel_frame *frame);
	/* Its client reads again. */
	void (*resume)(struct call *call);
	/* Its client cancels it. Returns true if it goes on for others. */
	bool (*goes_on)(struct call *call);
	/* It is over, and is answered next. */
	void (*end)(struct call *call);
	void (*free)(struct call *call);
};

#define CALL_FRAME_OF_ANOTHER 1

/* In the order in which they are asked. */
extern const struct call_hook call_hooks[CALL_USES];

/** Removes the first row from @uses, which is not 0, and returns it. */
static inline const struct call_hook *call_hook_take(unsigned *uses)
{
	const struct call_hook *hook = &call_hooks[__builtin_ctz(*uses)];

	*uses &= *uses - 1;
	return hook;
}

/** Returns the bits of the features that a call of @request uses from its beginning. */
unsigned call_uses_of(const struct call_request *request);

static inline bool call_is_command(const struct call *call)
{
	return call->request.tool->id == TOOL_RUN_COMMAND;
}

static inline bool call_does_use(const struct call *call, enum call_use use)
{
	return call->uses & 1U << use;
}

static inline uint64_t call_elapsed_us(const struct call *call)
{
	return (uint64_t)((clock_now() - call->started) / CLOCK_NS_PER_US);
}

/** Replaces @counted, a part of the memory that the call's answer counts with, by @now bytes. */
static inline void call_count(struct call *call, size_t *counted, size_t now)
{
	if (call->room.account)
		unread_recount(call->room.account, counted, now);
}

/** Whether the tool can change something, so that it must not run twice. */
static inline bool call_has_effects(const struct call *call)
{
	return call_is_command(call) || call_does_use(call, CALL_USES_DISK);
}

/** Returns the answer's key_horizon_ms; 0: the call has no key. */
static inline int64_t call_key_horizon(const struct call *call)
{
	return call->request.options.key.data ? (int64_t)call->request.tenant->limits.key_horizon_ms
					      : 0;
}

/** Sets the timers of a call that runs and waits for nothing. */
void call_set_times(struct call *call);

/** Sets the timer of a waiting or running call to @ms after the call's beginning. */
void call_set_deadline(struct call *call, int64_t ms);

/** Source of CALL_NOTED: its beginning is recorded, or @error says why not. */
void call_recorded(struct call *call, int error);

/** Tells observers that it begins, or begins as a session. */
void call_tell_begun(const struct call *call);

/** Gives it an entry in its workspace, where it waits for its turn. */
void call_enter(struct call *call);

/** Returns how long the call may wait in a queue, in milliseconds. */
int64_t call_wait_ms(const struct call_request *request);

/** Notes whether it has an entry in its workspace. */
void call_set_entered(struct call *call, bool entered);

/** Takes its entry out of its workspace, if it has one. */
void call_leave(struct call *call);

/** Sources of events, of a call (@context). */
void call_drained(void *context);
void call_pipe_held(void *context);

/** Frees a call that has been answered, or that never began. */
void call_free(struct call *call);
