/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a tool call came to, and its one JSON form: {success, tool, output, error, usage}. Tool
 * failures are observations, not protocol errors.
 */

#include "common/tools.h"
#include "common/wire_commands.h"
#include "common/wire_files.h"
#include "supervisor/call/ended_by.h"

struct command_io;
struct evbuffer;
struct json_text;

/* Everything is borrowed for the time of observation_write. */
struct observation {
	struct text tool; /* as the caller named it */
	enum tool_error error;
	struct text message;          /* of a failure; empty: the code's own sentence */
	int64_t retry_after_ms;       /* of a failure: when to try again; 0: not said */
	const struct tool_args *args; /* NULL when they could not be decoded */
	uint64_t wall_us;
	/* A file tool that succeeded. */
	const struct files_end *files;
	struct evbuffer *
		items; /* JSON: the content's string, or the array of entries or matches; emptied */
	const char *encoding; /* of the content */
	/* A command that has run. */
	struct command_io *io;
	const struct command_ended *command; /* NULL: it was lost */
	enum ended_by ended_by;
	bool base64;
};

/** Appends @observation as one JSON object. Failures show at the writer's flush. */
void observation_write(struct json_text *json, const struct observation *observation);

/** Its member "usage". */
void observation_write_usage(struct json_text *json, const struct observation *observation);

/* The JSON of one entry or match, for observation.items. */
void observation_write_entry(struct json_text *json, const struct files_entry *entry);
void observation_write_match(struct json_text *json, const struct files_match *match);
