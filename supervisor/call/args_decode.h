/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From JSON to plain structs: a tool's arguments, which a model wrote, and a call's options, which
 * the program around the model wrote. Runs in cloisterd. Neither is trusted; what is stored has
 * been checked for type, range and length, and texts that must not hold a NUL hold none. What a
 * path or pattern means is checked by who uses it.
 *
 * Texts in the results are borrowed from the JSON objects, which must outlive them. A member that
 * is null counts as not given, since models write that for optional ones.
 */

#include "common/errors.h"
#include "common/tools.h"

struct json_object;

/**
 * Decodes @arguments (NULL: none) of @tool into @ret_args, defaults filled in.
 *
 * Returns TOOL_OK. Otherwise returns TOOL_INVALID_ARGUMENTS, TOOL_FILE_TOO_LARGE (content) or
 * TOOL_NAME_TOO_LONG (a path), leaves @ret_args alone and stores in @ret_message one sentence that
 * names the argument and says what it must be (malloc'ed; NULL when out of memory).
 */
enum tool_error args_decode(const struct tool *tool, struct json_object *arguments,
	struct tool_args *ret_args, char **ret_message);

struct call_options {
	int64_t timeout_ms;      /* 0: not given */
	int64_t idle_timeout_ms; /* 0: not given */
	struct text input;       /* "stdin"; data is NULL if not given */
	struct text path_base64; /* as it came, not yet decoded; data is NULL if not given */
	struct json_object *env; /* borrowed: an object of strings without NUL; NULL if not given */
	size_t env_count;        /* members of env */
	bool stream;
	bool stdin_stream; /* more input comes while the command runs: tool.input */
	bool keep_output;  /* in the observation, not only in the stream */
	bool line_numbers;
	bool gitignore;
	bool base64;        /* encoding */
	bool reply_message; /* reply is "message", not "observation" */
	bool fast_write;    /* durability is "fast", not "durable" */
};

/** What holds for a call without options. */
void options_defaults(struct call_options *ret_options);

/**
 * Decodes tool.call's @options (NULL: none). Every known option is accepted for every tool, so that
 * a harness can send one set; those that do not apply have no effect. @tool serves the message
 * only.
 *
 * Returns 0, or -EINVAL with @ret_options left alone and one sentence in @ret_message (malloc'ed;
 * NULL when out of memory) for an unknown option, a wrong type or a value out of range.
 */
int options_decode(const struct tool *tool, struct json_object *options,
	struct call_options *ret_options, char **ret_message);
