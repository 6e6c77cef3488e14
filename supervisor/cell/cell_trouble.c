// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Reasons may have words of hostile processes; the log and JSON escape them. */
#include "supervisor/cell/cell_trouble.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/clock.h"
#include "supervisor/cell/cell_process_state.h"
#include "supervisor/cell/process_link.h"
#include "supervisor/cell/spawner_ask.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void note_trouble(struct cell *cell, const char *what, const char *why)
{
	char text[LIMIT_TROUBLE_BYTES];

	snprintf(text, sizeof(text), "%s: %s", what, why ? why : "nobody used it any more");
	free(cell->trouble.text);
	cell->trouble.text = strndup(text, utf8_cut(text_from(text), sizeof(text)).len);
	cell->trouble.at = clock_now();
}

static void tell_cell_trouble(struct cell *cell)
{
	cell->owner->troubled(cell->context, cell->trouble.text ? cell->trouble.text : "");
}

void cell_trouble_tell(struct cell *cell, const char *what, const char *why)
{
	cell_trouble_end(cell);
	note_trouble(cell, what, why);
	tell_cell_trouble(cell);
}

static void on_told(void *context, int error, struct text step)
{
	struct cell *cell = context;
	char *text = NULL;

	cell->trouble.asked = 0;
	if (error == 0 && cell->trouble.text &&
		asprintf(&text, "%s; %.*s", cell->trouble.text, (int)step.len, step.data) >= 0) {
		free(cell->trouble.text);
		cell->trouble.text = text;
	}
	tell_cell_trouble(cell);
}

void cell_trouble_tell_where(struct cell *cell, const char *what, const char *why)
{
	/* Where only the files process was killed, the worker's commands go on. */
	bool only_files = cell->state == STATE_FILES_ENDING;
	int pidfds[CELL_PROCESSES];
	unsigned n = 0;

	cell_trouble_end(cell);
	note_trouble(cell, what, why);
	for (int i = only_files ? CELL_FILES : CELL_WORKER; i < CELL_PROCESSES; i++)
		if (!process_link_is_gone(cell->processes[i].link))
			pidfds[n++] = process_link_pidfd(cell->processes[i].link);
	if (spawner_link_where(cell->spawner, pidfds, n, on_told, cell, &cell->trouble.asked) < 0) {
		cell->trouble.asked = 0;
		tell_cell_trouble(cell);
	}
}

void cell_trouble_end(struct cell *cell)
{
	if (!cell->trouble.asked)
		return;
	spawner_link_forget(cell->spawner, cell->trouble.asked);
	cell->trouble.asked = 0;
	tell_cell_trouble(cell);
}

void cell_trouble_done(struct cell *cell)
{
	if (cell->trouble.asked)
		spawner_link_forget(cell->spawner, cell->trouble.asked);
	free(cell->trouble.text);
}

const char *cell_trouble(const struct cell *cell, int64_t *ret_age_ms)
{
	*ret_age_ms = (clock_now() - cell->trouble.at) / CLOCK_NS_PER_MS;
	return cell->trouble.text;
}
