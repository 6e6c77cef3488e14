/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a command ended, as a model is told it in one line. Runs in cloisterd. */

#include <stddef.h>

struct observation;

#define ENDING_TEXT_SIZE 768
/**
 * Writes "exit 1 after 3.2 s", "ended by SIGSEGV", "stopped after 2 min" or, where a limit ended
 * it, the error's code and sentence. Returns @buffer, of @size bytes.
 */
const char *ending_text(const struct observation *observation, char *buffer, size_t size);
