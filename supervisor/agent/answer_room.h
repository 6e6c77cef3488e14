/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How much of a call's result there is room for, in an answer or where it is kept. */

#include "supervisor/call/result/shown.h"

struct command_io;
struct observation;

/**
 * Keeps only as much of a command's output as fits into @room bytes of an answer for @reader. As
 * JSON a byte may take six bytes; an answer for a model has the output once more, as a string that
 * is escaped twice.
 */
void answer_room_cut(struct command_io *io, enum reader reader, uint64_t room);

/**
 * Whether @observation fits. The JSON of a file call is moved into the answer; the text for a
 * model, or a copy of the JSON, is a string in it and needs more room. The result of another call
 * is copied for each call that has joined it, and nothing was counted for it before.
 */
bool answer_room_fits(const struct observation *observation, enum reader reader, uint64_t room);
