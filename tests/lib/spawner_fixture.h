/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A spawner that the test plays; the process that is forked only waits to be ended. */

#include "supervisor/cell/spawner_begin.h"
#include "supervisor/cell/spawner_link.h"

#include "common/program.h"
#include "common/wire/channel.h"
#include "tests/lib/unit.h"

#include <poll.h>
#include <sys/syscall.h>

static struct spawner {
	int pair[2]; /* cloisterd's end, and the spawner's */
	pid_t pid;
	struct channel channel;
	const char *first_words; /* frames that the spawner writes when it starts */
	size_t first_len;
	bool dies; /* once it has written them */
} spawner;

static struct spawner_link *link_;

/* The functions that cloisterd starts the spawner with. */

int program_open(const char *name, int *ret_fd)
{
	assert_string_equal(name, "cloister-spawner");
	*ret_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	return *ret_fd < 0 ? -errno : 0;
}

int program_execute(int program_fd, char *const argv[], const int *fds, int n_fds)
{
	(void)program_fd;
	(void)argv;
	(void)fds;
	(void)n_fds;
	_exit(127);
}

int socketpair(int domain, int type, int protocol, int pair[2])
{
	int r = (int)syscall(SYS_socketpair, domain, type, protocol, pair);

	memcpy(spawner.pair, pair, sizeof(spawner.pair));
	return r;
}

/* In the child: computes until it is killed. */
static void compute(int number)
{
	static volatile unsigned steps;

	(void)number;
	for (;;)
		steps++;
}

/* The child waits until cloisterd closes its end or kills it, and computes instead after SIGUSR1.
 * The test keeps the spawner's end. */
pid_t fork(void)
{
	struct pollfd poll_fd = {.fd = spawner.pair[1]};
	int end = fcntl(spawner.pair[1], F_DUPFD_CLOEXEC, 0);

	spawner.pid = _Fork();
	if (spawner.pid == 0) {
		close(spawner.pair[0]);
		close(end);
		signal(SIGUSR1, compute);
		while (poll(&poll_fd, 1, -1) < 0 || !(poll_fd.revents & POLLHUP))
			;
		_exit(0);
	}
	fcntl(end, F_SETFL, O_NONBLOCK);
	channel_init(&spawner.channel, end, end, CHANNEL_TAKES_FDS);
	if (spawner.first_len > 0)
		assert_int_equal(
			write(end, spawner.first_words, spawner.first_len), spawner.first_len);
	if (spawner.dies) {
		kill(spawner.pid, SIGKILL);
		waitpid(spawner.pid, NULL, 0);
		channel_done(&spawner.channel);
	}
	return spawner.pid;
}

/* Frames. */

static size_t put_frame(char *out, uint8_t type, uint64_t call, struct text payload)
{
	struct wire_header header = {.version = WIRE_VERSION,
		.type = type,
		.length = (uint32_t)payload.len,
		.call = call};

	memcpy(out, &header, sizeof(header));
	if (payload.len > 0)
		memcpy(out + sizeof(header), payload.data, payload.len);
	return sizeof(header) + payload.len;
}

static struct text failure(const char *step, int error)
{
	static uint8_t payload[256];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	setup_failure_put(&writer, &(struct setup_failure){text_from(step), (uint32_t)error});
	return (struct text){(char *)payload, writer.len};
}

static const struct text nothing = {NULL, 0};

static int start(const struct id_range *range, char **message)
{
	const struct spawner_start how = {.cgroup_fd = -1, .managed_fd = -1, .range = range};

	return spawner_link_start(&how, &link_, message);
}
