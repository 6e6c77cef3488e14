/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * In place of supervisor/workspace/spawner_link.c: a spawner played by the test. What is asked of
 * it waits in order until the test answers, well or badly.
 */

#include "supervisor/workspace/spawner_link.h"
#include "tests/unit/fakes/process.h"

/* What the spawner was asked for. */
struct fake_asked {
	uint8_t type; /* SPAWNER_OPEN, _OPEN_FILES, _PREPARE, _ASSIGN or _LOOK_UP */
	uint64_t number;
	struct spawner_open request;
	int fds[SPAWNER_OPEN_FDS]; /* of a look-up the first: where it starts */
	unsigned n_fds;
	char *path; /* of a look-up */
	bool below;
	spawner_answer answer;
	spawner_looked looked;
	void *context;
	struct fake_asked *next;
};

/* The two processes of a cell that the spawner has made. */
struct fake_cell {
	struct fake_process worker, files;
	struct fake_cell *next;
};

struct spawner_link *fake_spawner_new(void);
/** With all cells that it made. */
void fake_spawner_free(struct spawner_link *link);

/** What is to be answered next; NULL: nothing is. */
struct fake_asked *fake_spawner_asked(struct spawner_link *link);

/** Whether everything from now on is refused with @error (0: nothing is). */
void fake_spawner_refuse(struct spawner_link *link, int error);
/** Requests from now on cannot even be sent: @error from spawner_link_open (0: they can). */
void fake_spawner_break(struct spawner_link *link, int error);

/** Answers @asked, which is freed, as a spawner does that can do it: a cell's processes are there
 * and have said nothing yet; a directory is looked up. The cell, or NULL where none was made. */
struct fake_cell *fake_spawner_answer(struct spawner_link *link, struct fake_asked *asked);

/** Answers @asked, which is freed, with @error and @step. */
void fake_spawner_fail(
	struct spawner_link *link, struct fake_asked *asked, int error, struct text step);

/** The cells that were made, the latest first. */
struct fake_cell *fake_spawner_cells(struct spawner_link *link);

/** How often spawner_link_reload() was called. */
unsigned fake_spawner_reloads(const struct spawner_link *link);
