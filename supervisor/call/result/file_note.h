/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Runs in cloisterd. Writes a sentence about the parts of a file tool's result that are not shown.
 */

#include <stddef.h>

struct observation;

#define FILE_NOTE_SIZE 512
/**
 * Writes into @buffer, of FILE_NOTE_SIZE bytes, a sentence that says which part of a file tool's
 * result is left out and how to get it. Returns @buffer; it is empty if everything is shown.
 */
const char *file_note(const struct observation *observation, char *buffer, size_t size);
