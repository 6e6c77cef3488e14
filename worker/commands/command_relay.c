// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the inits of commands; relay_rest() in the worker too, for an init that was killed. Whole
 * pieces of output are passed on, and none is kept here in between: an init may be killed at any
 * time, and what it held would be lost. Another command of the workspace can open the terminal as
 * well, and may write on it without end, so what is passed on after the end is bounded.
 */
#include "worker/commands/command_relay.h"

#include "common/limits.h"
#include "worker/commands/raw_syscall.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>

/* A pipe with any room has room for so much: pipe(7), PIPE_BUF. */
#define PIECE_BYTES 4096

/* More than the kernel keeps of what was written on a terminal. */
#define REST_BYTES (64 * KIB)

enum { WAKE_SIGNAL, WAKE_MASTER, WAKE_IN, WAKE_OUT, WAKES };

static long wait_for_relay(struct pollfd *fds, unsigned n, int wait_ms)
{
	struct timespec time = {.tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000L};

	return RAW5(SYS_ppoll, fds, n, wait_ms < 0 ? NULL : &time, NULL, 0);
}

static bool pipe_has_room(int out, int wait_ms)
{
	struct pollfd room = {.fd = out, .events = POLLOUT};

	return wait_for_relay(&room, 1, wait_ms) > 0 && !(room.revents & (POLLERR | POLLNVAL));
}

/* Passes on one piece, for which there is room. Returns its bytes; 0 or -errno: there is none. */
static long pass_piece(const struct relay_ends *ends)
{
	char piece[PIECE_BYTES];
	long n = RAW3(SYS_read, ends->master, piece, sizeof(piece)), r;

	if (n <= 0)
		return n;
	r = RAW3(SYS_write, ends->out, piece, n);
	return r < 0 ? r : n;
}

static void pass_output(struct relay *relay)
{
	long r;

	relay->out_is_full = !pipe_has_room(relay->ends.out, 0);
	if (relay->out_is_full)
		return;
	r = pass_piece(&relay->ends);
	/* cloisterd reads no more: the command is about to be ended, and its writes wait. */
	if (r == -EPIPE)
		relay->ends.out = -1;
}

static void type_input(struct relay *relay)
{
	long n = RAW3(
		SYS_write, relay->ends.master, relay->input + relay->from, relay->to - relay->from);

	if (n > 0)
		relay->from += (size_t)n;
	else if (n != -EAGAIN)
		relay->from = relay->to;
}

/* What is typed has room on the terminal, as a rule. */
static void take_input(struct relay *relay)
{
	long n = RAW3(SYS_read, relay->ends.in, relay->input, sizeof(relay->input));

	relay->from = 0;
	relay->to = n > 0 ? (size_t)n : 0;
	if (n == 0)
		relay->ends.in = -1;
	if (n > 0)
		type_input(relay);
}

void relay_until_signal(struct relay *relay)
{
	for (;;) {
		bool typing = relay->from < relay->to;
		struct pollfd fds[WAKES] = {
			[WAKE_SIGNAL] = {.fd = relay->ends.signals, .events = POLLIN},
			[WAKE_MASTER] = {.fd = relay->ends.master,
				.events = (short)((typing ? POLLOUT : 0) |
						  (relay->out_is_full || relay->ends.out < 0
								  ? 0
								  : POLLIN))},
			[WAKE_IN] = {.fd = typing ? -1 : relay->ends.in, .events = POLLIN},
			[WAKE_OUT] = {.fd = relay->out_is_full ? relay->ends.out : -1,
				.events = POLLOUT},
		};
		long r = wait_for_relay(fds, WAKES, -1);

		if (r < 0 && r != -EINTR)
			return;
		if (fds[WAKE_MASTER].revents & POLLOUT)
			type_input(relay);
		if (fds[WAKE_IN].revents)
			take_input(relay);
		if (fds[WAKE_MASTER].revents & POLLIN)
			pass_output(relay);
		if (fds[WAKE_OUT].revents & (POLLERR | POLLNVAL))
			relay->ends.out = -1;
		if (fds[WAKE_OUT].revents)
			relay->out_is_full = false;
		if (fds[WAKE_SIGNAL].revents)
			return;
	}
}

void relay_rest(const struct relay_ends *ends, int wait_ms)
{
	size_t passed = 0;
	long n = 1;

	while (n > 0 && passed < REST_BYTES && pipe_has_room(ends->out, wait_ms)) {
		n = pass_piece(ends);
		passed += n > 0 ? (size_t)n : 0;
	}
}
