/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A cloisterd that serves, as far as old_daemon.c uses one, and what the test as a new daemon
 * says to it and hears from it. Each function fails the test where it cannot do what it is for. */

#include "supervisor/audit/audit.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/old_daemon.h"
#include "supervisor/host/handover.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"

#define HOUSE_USER      1001
#define HOUSE_RETIRE_MS 600000 /* as configured */
#define HOUSE_LOOK_MS   20     /* how often old_daemon.c looks whether it may go on */

/* What old_daemon.c uses of a cloisterd; the service is a copy of the fake's, with the same
 * workspaces, scheduler and configuration. */
struct house {
	struct fake_service *fake;
	struct daemon daemon;
	struct audit *audit;
	int state; /* the state directory */
	int peer;  /* the talk of the new daemon */
	struct fake_client client;
};

extern struct house house;

enum house_state { SERVING, SETTLING, GIVEN, RETIRED, STATES };

struct old_daemon *old_daemon(void);
const struct service *service(void);

/** Runs the loop, and lets @ms pass. */
void house_run(int64_t ms);

/** Makes the house, in which one tenant has the roots a and b, and one client is connected. */
void house_begin(void);
void house_leave(void);

/** The same as a test's set-up and tear-down. */
int house_set_up(void **state);
int house_tear_down(void **state);

/** Lets one turn of the loop hear what has come, one message of each socket, and timers expire. */
void house_hear_one(void);

/** Frees the old daemon as cloisterd does when it ends: it has no workspaces any more. */
void house_end_old_daemon(void);

/** The client says @line and hears @answer (fake_client_talk()). */
void house_say(const char *line, const char *answer);

/** Brings the old daemon to @state. A command goes on, so that it does not end. */
void house_reach(enum house_state state);

void new_daemon_connects(void);
void new_daemon_says(enum handover_type type);

/** Returns 1 and the next message, -EAGAIN: there is none, or 0: the talk is over. */
int new_daemon_hears(struct handover_message *ret);

/** Returns the next message, which has to be a @type. The caller drops it. */
struct handover_message new_daemon_expects(enum handover_type type);
void new_daemon_takes(enum handover_type type);
bool new_daemon_talk_is_over(void);

/** Whether @message is about the file at @path of the house's scratch directory. */
bool message_is_of(const struct handover_message *message, const char *path);

#define OPEN(id, name) REQUEST(id, "workspace.open", "{\"root\":\"@/root/" name "\"}")
#define HANG(id) \
	REQUEST(id, "tool.call", "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}")
#define CANCEL(id, of) REQUEST(id, "tool.cancel", "{\"id\":" of "}")
