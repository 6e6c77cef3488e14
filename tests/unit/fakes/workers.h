/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An honest worker and an honest files process, played by the test.
 *
 * A command is one of these words, with its argument:
 *   echo TEXT   writes TEXT and a newline and exits with 0
 *   fail N      writes "failed" to stderr and exits with N
 *   signal N    is ended by the signal N
 *   cat         copies its input and exits with 0 at the end of it
 *   hang        ends at SIGTERM
 *   say TEXT    writes TEXT, in which '|' is a newline, and then hangs
 *   stubborn    ends only at SIGKILL
 *   deaf        does not end
 *   cannot N    cannot be started, with the errno N
 *   memory      is killed at its memory limit
 * Anything else exits with 0.
 *
 * The name of a file decides how a call for it ends: "missing" is not found, "slow" answers when
 * the call is cancelled, "deaf" does not answer, "binary" is an image that is too large to be
 * shown, "image" is one that is not; any other file has two lines. An edit changes the first of
 * them, and a patch updates the file "patched", whatever they say. A comparison finds one file that
 * was added, "made".
 */

#include "tests/unit/fakes/spawner_link.h"

#define FAKE_ORDINARY (-1)
#define FAKE_SLOW     (-2)

/* Functions of the test that are asked for an answer first. */
struct fake_answers {
	/* Returns the output of @command, which then exits with 0; "": the words above apply. */
	const char *(*command)(const char *command);
	/* Returns the code of the file call of @tool on @path, and how many results it found.
	 * @pattern is that of a search, otherwise empty. FAKE_ORDINARY: as if there were no such
	 * function; FAKE_SLOW: it ends when it is cancelled. */
	int (*file)(const char *tool, struct text path, struct text pattern, uint64_t *ret_count);
};

extern struct fake_answers fake_workers_answers;

/** Both processes of @cell report that they are ready. */
void fake_workers_ready(struct fake_cell *cell);

/** Both processes act on all requests. Returns whether there was one. */
bool fake_workers_act(struct fake_cell *cell);

/** Each running command writes @text. */
void fake_workers_write(const char *text);

/** Each running command that is @command exits with 0. */
void fake_workers_exit(const char *command);

/** Returns one of the calls that @process works on, or 0. */
uint64_t fake_workers_call(const struct fake_process *process, unsigned n);

/** Closes the ends of commands' pipes that are still open. */
void fake_workers_done(void);

/* The number of the last COMMAND_PAUSE; the test answers it. */
extern uint64_t fake_workers_pause;
