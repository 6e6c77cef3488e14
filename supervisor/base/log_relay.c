// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd. The spawner is trusted. In builds with sanitizers its children write here too,
 * so the bytes may be hostile: lines are cut at a bound, and control characters are replaced.
 * pipe(7).
 */
#include "supervisor/base/log_relay.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/log.h"
#include "supervisor/base/watch.h"

#include <errno.h>
#include <fcntl.h>

#define LINE_BYTES 1024

struct log_relay {
	int fd;
	struct watch watch;
	size_t len;
	char line[LINE_BYTES];
};

int log_relay_new(struct log_relay **ret, int *ret_write_end)
{
	struct log_relay *relay = calloc(1, sizeof(*relay));
	int ends[2];

	if (!relay)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		free(relay);
		return -errno;
	}
	relay->fd = ends[0];
	*ret_write_end = ends[1];
	*ret = relay;
	return 0;
}

static void pass_on_log(struct log_relay *relay)
{
	if (relay->len > 0)
		log_relayed((struct text){relay->line, relay->len});
	relay->len = 0;
}

static void take_log_char(struct log_relay *relay, char c)
{
	if (c == '\n' || relay->len == sizeof(relay->line))
		pass_on_log(relay);
	if (c != '\n')
		relay->line[relay->len++] = (unsigned char)c < 0x20 || c == 0x7f ? '?' : c;
}

/* Reads once. Returns whether there was anything. */
static bool receive_log(struct log_relay *relay)
{
	char buffer[4 * KIB];
	ssize_t n = read(relay->fd, buffer, sizeof(buffer));

	for (ssize_t i = 0; i < n; i++)
		take_log_char(relay, buffer[i]);
	if (n == 0)
		watch_want(&relay->watch, WATCH_NOTHING);
	return n > 0;
}

static void on_log_readable(void *context)
{
	(void)receive_log(context);
}

int log_relay_watch(struct log_relay *relay, struct event_base *base)
{
	static const struct watch_calls calls = {{on_log_readable, NULL}, LOOP_PRIORITY_BULK};
	int r = watch_init(&relay->watch, base, relay->fd, &calls, relay);

	if (r == 0)
		watch_want(&relay->watch, WATCH_READABLE);
	return r;
}

void log_relay_free(struct log_relay *relay)
{
	if (!relay)
		return;
	while (receive_log(relay))
		;
	pass_on_log(relay);
	watch_done(&relay->watch);
	close_fd(&relay->fd);
	free(relay);
}
