/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a file call has brought so far, kept as the JSON it will be answered with. The process it
 * comes from is hostile: amounts are bounded here, and a kind of frame that the tool does not have
 * is a fault of the peer.
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
	uint64_t bytes; /* of content, as they came */
	uint64_t count; /* entries or matches kept */
	bool cut;       /* there were more than could be kept */
	bool dropped;   /* what comes is not kept any more */
};

/** 0 or -ENOMEM. */
int call_result_begin(struct call_result *result, enum tool_id tool, bool base64);

/** Takes FILES_DATA, FILES_ENTRY or FILES_MATCH. 0, or -EBADMSG. */
int call_result_add(struct call_result *result, const struct channel_frame *frame);

/** How much of it is kept, in bytes. */
size_t call_result_size(const struct call_result *result);

/** Lets go of what came, and of all that will. */
void call_result_drop(struct call_result *result);

/** No more comes: items is a whole JSON value. 0 or -ENOMEM. */
int call_result_finish(struct call_result *result);

/** "utf-8", "utf-8-replaced" when invalid bytes became U+FFFD, or "base64". */
const char *call_result_encoding(const struct call_result *result);

void call_result_done(struct call_result *result);
