/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Guesses the path inside the workspace that was meant by a path outside it, for a note to the
 * model. It compares strings only: cloisterd makes no system call with a path of a workspace. Runs
 * in cloisterd.
 */

#include "common/text.h"

struct notes;

/**
 * Adds a note with the root and the relative path that @path, which is outside, probably meant: the
 * part after a directory with the root's name, after a name of workspaces in examples
 * ("/workspace/a.c"), or after the first "/". A directory of the system gets no such guess.
 */
void path_guess_note(struct text visible_root, struct text path, struct notes *notes);
