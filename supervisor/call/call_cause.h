/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is said to whoever called when a call was ended: what happened, and what to do about it. */

#include "supervisor/call/ended_by.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call_request;

/** Why a call like @request ended because of @cause, @after_ms after its admission and, if it was
 * @begun, not while it waited; written to @buffer or of static storage. NULL: the code's own
 * sentence says it. */
const char *call_cause_sentence(const struct call_request *request, enum ended_by cause, bool begun,
	uint64_t after_ms, char *buffer, size_t size);
