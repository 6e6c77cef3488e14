/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a path outside the workspace probably meant inside it, for a note to the model. Looks at the
 * string only: cloisterd makes no system call with a path of a workspace. Runs in cloisterd.
 */

#include "common/text.h"

struct notes;

/**
 * Notes where the root is, and the relative path that @path, which is outside of it, probably
 * meant: what follows a directory with the root's own name, or a name that stands for a workspace
 * in examples ("/workspace/a.c"), or the first "/". For a directory of the system there is none.
 */
void path_guess_note(struct text visible_root, struct text path, struct notes *notes);
