/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The other end of a libcloister connection, which sends what the test says. */

#include "libcloister/cloister.h"
#include "tests/lib/unit.h"

#include <assert.h>
#include <poll.h>

struct scripted {
	struct cloister *cloister;
	int fd;
	char line[1 << 16]; /* the last line received */
};

static inline struct scripted scripted_new(void)
{
	struct scripted scripted = {0};
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(cloister_open_fd(pair[0], &scripted.cloister), 0);
	scripted.fd = pair[1];
	return scripted;
}

static inline void scripted_free(struct scripted *scripted)
{
	cloister_close(scripted->cloister);
	if (scripted->fd >= 0)
		close(scripted->fd);
}

static inline void say_bytes(struct scripted *scripted, const void *data, size_t len)
{
	assert_int_equal(send(scripted->fd, data, len, MSG_NOSIGNAL), len);
}

/* Sends one line; @text has no newline. */
static inline void say(struct scripted *scripted, const char *text)
{
	say_bytes(scripted, text, strlen(text));
	say_bytes(scripted, "\n", 1);
}

static inline void hang_up(struct scripted *scripted)
{
	close(scripted->fd);
	scripted->fd = -1;
}

/* Returns the next line from the library, or "" if there is none. */
static inline const char *hear(struct scripted *scripted)
{
	size_t used = 0;

	while (used + 1 < sizeof(scripted->line) &&
		recv(scripted->fd, scripted->line + used, 1, MSG_DONTWAIT) == 1 &&
		scripted->line[used] != '\n')
		used++;
	scripted->line[used] = '\0';
	return scripted->line;
}
