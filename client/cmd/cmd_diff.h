/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The result of workspace.diff, for people. */

#include <stdbool.h>
#include <stdio.h>

struct json_object;

/** Whether entries have changed, listed or not. */
bool diff_has_changes(struct json_object *result);

/** Prints a line for each change. */
void diff_print_names(FILE *out, struct json_object *result);

/** Prints how many changes the list omits. Returns STATUS_OK, or STATUS_TOOL_FAILED if that is
 * anything.
 */
int diff_complain_of_rest(struct json_object *result);
