/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Between a command's terminal and cloisterd's two pipes: what the command writes on its terminal
 * goes into the output pipe, and what comes from the input pipe is typed on the terminal. It runs
 * in the command's init, and makes raw system calls only: command_init.c says why. So cloisterd
 * never holds a descriptor of a terminal that a command has too. The bytes are hostile in both
 * directions and are not looked at. pty(7).
 */

#include <stddef.h>

#define RELAY_INPUT_BYTES 1024 /* typed at once */

/* Descriptors, borrowed. The master and both pipes do not block. */
struct relay_ends {
	int master;
	int in;      /* read end of the input pipe */
	int out;     /* write end of the output pipe */
	int signals; /* signalfd(2): readable when the init has a signal to take */
};

struct relay {
	struct relay_ends ends; /* an end that is over is -1 */
	char input[RELAY_INPUT_BYTES];
	size_t from, to; /* the part of input that is still to be typed */
	int out_is_full; /* the output pipe has no room: nothing is read from the terminal */
};

/** Passes bytes on until there is a signal to take, which it leaves to the caller. */
void relay_until_signal(struct relay *relay);

/**
 * All processes of the command are gone: copies the rest of its output, at most what a terminal
 * holds. Waits at most @wait_ms for room in the output pipe, each time.
 */
void relay_rest(const struct relay_ends *ends, int wait_ms);
