/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Explains to the client why a call was ended, and what to do about it. */

#include "supervisor/call/ended_by.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_request;

/**
 * Returns a sentence that says why a call like @request ended with @cause, @after_ms after its
 * admission; @begun is false if it was still waiting. The sentence is in @buffer or static. NULL:
 * the error code's own sentence is enough.
 */
const char *call_cause_sentence(const struct call_request *request, enum ended_by cause, bool begun,
	uint64_t after_ms, char *buffer, size_t size);
