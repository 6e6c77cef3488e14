/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings by which each harness uses only cloister's tools. A recipe is a directory below
 * ~/.config/cloister with the harness's settings and a script that starts it there. The harness
 * never starts in the workspace, because settings that it finds there may have been written by a
 * model.
 */

#include <stddef.h>

struct harness {
	const char *name;
	const char *title;
	const char *notes;    /* comment lines of the script that `cloister harness` prints */
	const char *file;     /* the settings' name in the directory */
	const char *settings; /* @ARGS@: what follows `cloister` as an array; @COMMAND@: with it */
	const char *start;    /* the last lines of the script that starts it; NULL: none can */
};

/** The harness of this index, or NULL after the last one. */
const struct harness *harness_at(size_t index);
