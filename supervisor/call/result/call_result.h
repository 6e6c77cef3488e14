/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The result of a file call so far, kept as the JSON of its answer and, for a model, also as text
 * (shown.h). Results that the model is not shown are counted and not kept. The files process is
 * hostile: amounts are bounded here, and a frame type that the tool does not have is a protocol
 * error.
 */

#include "common/tools.h"
#include "common/wire/channel.h"
#include "common/wire/wire_files.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/result/content_cut.h"

struct call_request;
struct evbuffer;
struct files_end;
struct notes;
struct observation;
struct patch_result;

struct call_result {
	const struct call_request *request; /* borrowed */
	enum tool_id tool;
	bool base64;
	struct evbuffer *items;
	struct json_text json;
	uint64_t bytes;             /* bytes of content received */
	uint64_t count;             /* entries or matches kept */
	uint64_t sent, sent_max;    /* bytes that these take of the answer, and may take */
	uint64_t total;             /* entries or matches that came */
	bool cut;                   /* there were more than could be kept */
	bool dropped;               /* further results are dropped */
	struct evbuffer *text;      /* the items as text, see model_text.h; NULL: all is shown */
	struct content_cut content; /* cuts the content of a file, if text is not NULL */
	struct evbuffer *image;     /* the base64 of an image as a string of JSON, or NULL */
	struct json_text image_json;
	struct evbuffer *data;      /* JSON: why an edit was not made, or NULL */
	struct patch_result *patch; /* of apply_patch, or NULL */
	/* of workspace.diff: the array's last object, and the string of its patch, are not closed
	 */
	bool in_change, in_patch;
	struct files_totals totals;
};

/** Begins the result of @request. Returns 0 or -ENOMEM. */
int call_result_begin(struct call_result *result, const struct call_request *request);

/** Takes a frame of the result, such as FILES_DATA or FILES_ENTRY. Returns 0 or -EBADMSG. */
int call_result_add(struct call_result *result, const struct channel_frame *frame);

/** Returns the size of the kept result in bytes. */
size_t call_result_size(const struct call_result *result);

/** Drops the result so far and all that follows. */
void call_result_drop(struct call_result *result);

/** Drops the result, and the state of a patch. */
void call_result_forget(struct call_result *result);

/** Completes the JSON value in items. Returns 0 or -ENOMEM. */
int call_result_finish(struct call_result *result);

/**
 * Lends a complete result to @observation. Corrects @end, the report of the files process, where
 * less is shown than it sent.
 */
void call_result_tell(
	struct call_result *result, struct files_end *end, struct observation *observation);

/**
 * Lends the known state of a call whose process was lost to @observation, and adds it to @notes for
 * a model.
 */
void call_result_tell_lost(
	struct call_result *result, struct notes *notes, struct observation *observation);

void call_result_done(struct call_result *result);
