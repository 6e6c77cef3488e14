/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result of a file call so far, kept as the JSON of its answer. The files process is hostile:
 * amounts are bounded here, and a frame type that the tool does not have is a protocol error.
 */

#include "common/channel.h"
#include "common/tools.h"
#include "supervisor/base/json_text.h"

struct evbuffer;

struct call_result {
	enum tool_id tool;
	bool base64;
	struct evbuffer *items;
	struct json_text json;
	uint64_t bytes; /* bytes of content received */
	uint64_t count; /* entries or matches kept */
	bool cut;       /* there were more than could be kept */
	bool dropped;   /* further results are dropped */
};

/** Returns 0 or -ENOMEM. */
int call_result_begin(struct call_result *result, enum tool_id tool, bool base64);

/** Takes FILES_DATA, FILES_ENTRY or FILES_MATCH. Returns 0 or -EBADMSG. */
int call_result_add(struct call_result *result, const struct channel_frame *frame);

/** Returns the size of the kept result in bytes. */
size_t call_result_size(const struct call_result *result);

/** Drops the result so far and all that follows. */
void call_result_drop(struct call_result *result);

/** Completes the JSON value in items. Returns 0 or -ENOMEM. */
int call_result_finish(struct call_result *result);

/** Returns "utf-8", "utf-8-replaced" if invalid bytes became U+FFFD, or "base64". */
const char *call_result_encoding(const struct call_result *result);

void call_result_done(struct call_result *result);
