/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notes of an observation: sentences that tell the model how cloisterd took arguments that were not
 * as the tool describes them. Runs in cloisterd.
 */

#include "common/limits.h"

#include <stddef.h>
#include <stdlib.h>

struct notes {
	char *texts[LIMIT_NOTES];
	size_t count;
};

/** Adds a sentence. It is left out if there are LIMIT_NOTES, or if memory is out. */
void __attribute__((format(printf, 2, 3))) notes_add(struct notes *notes, const char *format, ...);

/** Frees the sentences; there are none then. */
static inline void notes_done(struct notes *notes)
{
	while (notes->count > 0)
		free(notes->texts[--notes->count]);
}
