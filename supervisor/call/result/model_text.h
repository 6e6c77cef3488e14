/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An observation as text for a model. It reads like a terminal: a line says what happened, then
 * comes the output, and a last line names what is left out. MCP's results and messages of a
 * conversation contain it. Runs in cloisterd. Names and contents are hostile bytes, and become
 * valid UTF-8 only when the text is written as a string of JSON.
 */

#include "common/wire/wire_files.h"

#include <stdbool.h>

struct evbuffer;
struct json_text;
struct key_result;
struct observation;
struct stream_shown;

/**
 * Whether @observation has a text for a model. An observation for a program has no text
 * (shown_to()), unless it is a failure without a result.
 */
bool model_text_exists(const struct observation *observation);

/**
 * Writes @observation, whose text exists, as one string of JSON; observation.text is emptied. If a
 * result lacks its text, which is a bug of cloisterd, the string says so.
 */
void model_text_write(struct json_text *json, const struct observation *observation);

/**
 * Writes @observation in both forms, as JSON and as text, as far as it has them, of at most @max
 * bytes each, which empties it. Returns 0 and a result, to be freed with key_result_done();
 * -EMSGSIZE; or -ENOMEM.
 */
int model_text_keep(const struct observation *observation, size_t max, struct key_result *ret);

/* Write one entry or match as a line, for observation.text. Return false if memory is out. */
bool model_text_entry(struct evbuffer *text, const struct files_entry *entry, bool with_size);
bool model_text_match(struct evbuffer *text, const struct files_match *match);
/* Likewise: output as a model is shown it, and a name without line breaks. */
bool model_text_stream(struct evbuffer *text, const struct stream_shown *shown);
bool model_text_name(struct evbuffer *text, struct text name);
