/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths that commands of a sandbox see and cloisterd's methods of files do not, such as those below
 * /tmp. A command in the sandbox does there what the method would do, with the same rights as every
 * other command. Its output is the sandbox's word about itself.
 */

#include "gate/e2b/op.h"

/** Whether the absolute @path of the op's sandbox is such a path. */
bool outside_is(const struct op *op, const char *path);

/* Each returns the shell's line, which the caller puts: a string of JSON; NULL: no memory. */

/** A line that lists @path and the entries below it down to @depth (0: @path alone). */
struct json_object *outside_list(const char *path, int64_t depth);
struct json_object *outside_make(const char *path);
struct json_object *outside_move(const char *path, const char *to);
struct json_object *outside_remove(const char *path);
/** A line that writes its input to @path, and makes the directories above it. */
struct json_object *outside_write(const char *path);
struct json_object *outside_read(const char *path);

/** Runs @line, which is taken. Calls @next if the line succeeded; otherwise answers the client. */
void outside_run(struct op *op, struct json_object *line, op_next *next);

/** Returns what a line of outside_list() told, as an array of entries of file.stat. */
struct json_object *outside_entries(const struct cloister_message *reply);

/** Returns whether the command of @reply succeeded; if not, answers the client. */
bool outside_worked(struct op *op, const struct cloister_message *reply);

/** The options of a call of run_command for a line. */
struct json_object *outside_options(void);

/** As op->on_refusal: a path outside of what file methods see is NOT_FOUND to clients. */
bool outside_is_missing(struct op *op, const struct cloister_message *reply);
