// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/base/loop.h"

#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/loop_turn.h"

#include <event2/event.h>
#include <stddef.h>

/*
 * Libevent warns when epoll_ctl(2) fails. That is ignored here, because watch.h notices it by
 * event_add(3) and logs it. Libevent itself would wait for the reader of stderr.
 */
static void on_libevent_log(int severity, const char *message)
{
	if (severity == EVENT_LOG_ERR)
		log_error("libevent: %s", message);
}

void loop_log_errors(void)
{
	event_set_log_callback(on_libevent_log);
}

struct event_base *loop_new(bool epoll)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config && event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0 &&
		(epoll || event_config_avoid_method(config, "epoll") == 0) &&
		event_config_set_max_dispatch_interval(config, NULL, 1, LOOP_PRIORITY_BULK) == 0)
		base = event_base_new_with_config(config);
	if (base && event_base_priority_init(base, LOOP_PRIORITIES) < 0) {
		event_base_free(base);
		base = NULL;
	}
	if (config)
		event_config_free(config);
	return base;
}

void loop_run(struct event_base *base)
{
	do
		clock_begin_turn();
	while (event_base_loop(base, EVLOOP_ONCE) == 0 && !event_base_got_break(base));
}
