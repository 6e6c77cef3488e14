// SPDX-License-Identifier: Apache-2.0
#include "supervisor/daemon/shutdown.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/log.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/keys/call_keyed.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/session/session.h"

#include <event2/event.h>
#include <signal.h>

#define CHECK_MS 20
/*
 * A command has its grace time, then its death must be reported. Calls that are not answered by
 * then get no answer.
 */
#define BOUND_MS   (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS)
#define SPAWNER_MS 5000 /* the time for what follows: workspaces and the spawner are ended */

struct shutdown {
	struct service *service;
	struct event *terminate, *interrupt;
	struct timer check;
	bool ending;     /* the calls have been cancelled */
	uint64_t checks; /* number of checks since then, or since the drain began */
	uint64_t drain_ms;
};

static void end_calls(struct shutdown *shutdown)
{
	shutdown->ending = true;
	shutdown->checks = 0;
	agent_conns_shut_down();
	call_cancel_left_behind(ENDED_BY_SHUTDOWN);
	session_shut_down();
}

static void on_check(void *context)
{
	struct shutdown *shutdown = context;
	uint64_t bound = shutdown->ending ? BOUND_MS : shutdown->drain_ms;
	bool over = ++shutdown->checks >= bound / CHECK_MS;
	size_t calls = agent_conns_calls() + call_count_left_behind();

	timer_set(&shutdown->check, CHECK_MS);
	/* Sessions are not waited for while calls have time to end by themselves. */
	if ((calls == 0 && session_count(NULL) == 0) || (over && shutdown->ending))
		event_base_loopbreak(shutdown->service->base);
	else if ((calls == 0 || over) && !shutdown->ending)
		end_calls(shutdown);
}

static void take_nothing_new(struct shutdown *shutdown, uint64_t drain_ms)
{
	shutdown->service->shutting_down = true;
	shutdown->drain_ms = drain_ms;
	notify_stopping(drain_ms + BOUND_MS + SPAWNER_MS);
	timer_set(&shutdown->check, CHECK_MS);
}

static void on_signal(evutil_socket_t signal_number, short what, void *context)
{
	struct shutdown *shutdown = context;
	uint64_t drain_ms = shutdown->service->config->host.drain_ms;

	(void)what;
	if (signal_number != SIGTERM || drain_ms == 0 || shutdown->service->shutting_down) {
		shutdown_begin(shutdown);
		return;
	}
	log_info("shutting down: %zu calls have %llu seconds to end", agent_conns_calls(),
		(unsigned long long)(drain_ms / 1000));
	take_nothing_new(shutdown, drain_ms);
}

struct shutdown *shutdown_new(struct service *service)
{
	struct shutdown *shutdown = calloc(1, sizeof(*shutdown));

	if (!shutdown)
		return NULL;
	shutdown->service = service;
	shutdown->terminate = evsignal_new(service->base, SIGTERM, on_signal, shutdown);
	shutdown->interrupt = evsignal_new(service->base, SIGINT, on_signal, shutdown);
	timer_init(&shutdown->check, on_check, shutdown);
	if (!shutdown->terminate || !shutdown->interrupt ||
		event_add(shutdown->terminate, NULL) < 0 ||
		event_add(shutdown->interrupt, NULL) < 0) {
		shutdown_free(shutdown);
		return NULL;
	}
	return shutdown;
}

void shutdown_begin(struct shutdown *shutdown)
{
	if (shutdown->ending)
		return;
	log_info("shutting down");
	if (!shutdown->service->shutting_down)
		take_nothing_new(shutdown, 0);
	end_calls(shutdown);
}

void shutdown_free(struct shutdown *shutdown)
{
	if (!shutdown)
		return;
	if (shutdown->terminate)
		event_free(shutdown->terminate);
	if (shutdown->interrupt)
		event_free(shutdown->interrupt);
	timer_cancel(&shutdown->check);
	free(shutdown);
}
