/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The JSON form of an observation: {success, tool, output, error, usage}, and notes if there are
 * any.
 */

#include "supervisor/call/result/observation.h"
#include "supervisor/call/result/stream_shown.h"

struct json_text;

/** Appends @observation as one JSON object. A failure shows when the writer is flushed. */
void observation_write(struct json_text *json, const struct observation *observation);

/** Returns @word, an argument that is repeated, or its beginning for a model. */
struct text observation_word(const struct observation *observation, struct text word);

/** Stores what each stream of a command may take of the answer to a model. */
void observation_rooms(const struct observation *observation,
	struct stream_room ret_rooms[static COMMAND_STREAMS]);

/** Writes the member "diff", if it is a preview. */
void observation_write_diff(struct json_text *json, const struct observation *observation);

/** Writes the members of a diff: what has changed since a checkpoint. */
void observation_write_changes(struct json_text *json, const struct observation *observation);

/** Writes the member "usage". */
void observation_write_usage(struct json_text *json, const struct observation *observation);

/** Writes why an edit was not made to @out, for observation.data. Returns 0 or -ENOMEM. */
int observation_write_trouble(struct evbuffer *out, const struct files_trouble *trouble);

/**
 * Writes the member "path", and also its bytes if text cannot represent it (it is not UTF-8, or has
 * a backslash that would become a slash).
 */
void observation_write_path(struct json_text *json, struct text path);

void observation_write_node(struct json_text *json, const struct files_node *node);

/* Write one entry or match as JSON for observation.items. */
void observation_write_entry(struct json_text *json, const struct files_entry *entry);
/* The object of a change is left open: its patch follows. */
void observation_write_change(struct json_text *json, const struct files_change *change);
void observation_write_match(struct json_text *json, const struct files_match *match);
