/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processes of a cell at work, played by the test: what an honest worker and an honest files
 * process answer.
 *
 * A command is one of these words, with its argument:
 *   echo TEXT   writes TEXT and a newline and exits with 0
 *   fail N      writes "failed" to stderr and exits with N
 *   signal N    is ended by the signal N
 *   cat         copies its input and exits with 0 at the end of it
 *   hang        ends when it is terminated
 *   say TEXT    writes TEXT, in which '|' is a newline, and then hangs
 *   stubborn    ends when it is killed
 *   deaf        does not end
 *   cannot N    cannot be started: the errno N
 *   memory      is killed at its limit of memory
 * Anything else exits with 0.
 *
 * A file is named by what becomes of the call: "missing" is not found, "slow" answers when it is
 * cancelled, "deaf" does not answer, "binary" is an image; any other holds two lines.
 */

#include "tests/unit/fakes/spawner_link.h"

/* Answers of the test's own, which come first. */
struct fake_answers {
	/* What @command writes before it exits with 0; "": one that is not known, as above. */
	const char *(*command)(const char *command);
	/* The code that the file call of @tool on @path ends with, and how much it found. @pattern
	 * is what it looks for; empty: nothing. */
	int (*file)(const char *tool, struct text path, struct text pattern, uint64_t *ret_count);
};

extern struct fake_answers fake_workers_answers;

/** Both processes of @cell say that they are ready. */
void fake_workers_ready(struct fake_cell *cell);

/** They act on all that has come. Whether something had. */
bool fake_workers_act(struct fake_cell *cell);

/** Each command that runs writes @text. */
void fake_workers_write(const char *text);

/** Ends of commands' pipes that they still hold are closed. */
void fake_workers_done(void);
