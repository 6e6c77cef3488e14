// SPDX-License-Identifier: Apache-2.0
#include "supervisor/shutdown.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent_conn.h"
#include "supervisor/log.h"
#include "supervisor/notify.h"

#include <event2/event.h>
#include <signal.h>

#define CHECK_MS 20
/* A command has its grace, then its killing must be reported; what is not answered by then is not
 * answered. */
#define BOUND_MS (LIMIT_TERM_GRACE_MS + LIMIT_KILL_REPORT_MS)

struct shutdown {
	struct service *service;
	struct event *terminate, *interrupt, *check;
	unsigned checks;
};

static void on_signal(evutil_socket_t signal_number, short what, void *context)
{
	(void)signal_number;
	(void)what;
	shutdown_begin(context);
}

static void on_check(evutil_socket_t fd, short what, void *context)
{
	struct shutdown *shutdown = context;

	(void)fd;
	(void)what;
	if (agent_conns_calls() == 0 || ++shutdown->checks >= BOUND_MS / CHECK_MS)
		event_base_loopbreak(shutdown->service->base);
}

struct shutdown *shutdown_new(struct service *service)
{
	struct shutdown *shutdown = calloc(1, sizeof(*shutdown));

	if (!shutdown)
		return NULL;
	shutdown->service = service;
	shutdown->terminate = evsignal_new(service->base, SIGTERM, on_signal, shutdown);
	shutdown->interrupt = evsignal_new(service->base, SIGINT, on_signal, shutdown);
	shutdown->check = event_new(service->base, -1, EV_PERSIST, on_check, shutdown);
	if (!shutdown->terminate || !shutdown->interrupt || !shutdown->check ||
		event_add(shutdown->terminate, NULL) < 0 ||
		event_add(shutdown->interrupt, NULL) < 0) {
		shutdown_free(shutdown);
		return NULL;
	}
	return shutdown;
}

void shutdown_begin(struct shutdown *shutdown)
{
	static const struct timeval interval = {.tv_usec = CHECK_MS * 1000L};

	if (shutdown->service->shutting_down)
		return;
	log_info("shutting down");
	shutdown->service->shutting_down = true;
	notify_stopping();
	agent_conns_shut_down();
	event_add(shutdown->check, &interval);
}

void shutdown_free(struct shutdown *shutdown)
{
	if (!shutdown)
		return;
	if (shutdown->terminate)
		event_free(shutdown->terminate);
	if (shutdown->interrupt)
		event_free(shutdown->interrupt);
	if (shutdown->check)
		event_free(shutdown->check);
	free(shutdown);
}
