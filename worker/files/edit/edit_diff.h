/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The diff that edit_file answers, so that the model need not read the file again. */

#include "worker/files/edit/edit_plan.h"

/**
 * Writes what @plan, which was made, changes: for each changed run of lines a hunk with up to two
 * lines of context, as diff -u has it, as many whole hunks as fit into @size bytes, and then the
 * number of those left out. Returns the length. The last line of a file may lack its newline.
 */
size_t edit_diff(const struct edit_plan *plan, char *buffer, size_t size);
