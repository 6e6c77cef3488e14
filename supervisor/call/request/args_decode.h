/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decodes JSON into plain structs: a tool's arguments, written by a model, and a call's options,
 * written by the program around the model. Runs in cloisterd. Neither is trusted: type, range and
 * length of each value are checked, and a text that must not hold a NUL holds none. The users of a
 * path or pattern check its meaning.
 *
 * Texts in the results are borrowed from the JSON objects, which must outlive them. A member that
 * is null counts as absent, because models write null for optional members.
 */

#include "common/errors.h"
#include "common/tools.h"

struct json_object;
struct notes;

/**
 * Renames the members of @arguments (NULL: none) that have another name for a parameter of @tool
 * (supervisor/call/request/args_alias.h) and says so in @notes. Unknown names stay.
 *
 * Returns TOOL_OK; INVALID_ARGUMENTS with a sentence in @ret_message, as args_decode(), if two
 * members mean one parameter; BUSY if memory is out.
 */
enum tool_error args_rename(const struct tool *tool, struct json_object *arguments,
	struct notes *notes, char **ret_message);

/**
 * Decodes @arguments (NULL: none) of @tool into @ret_args and fills in defaults. Takes "2" for an
 * integer, "true" for a boolean, and the maximum for a number beyond it, and says so in @notes.
 *
 * Returns TOOL_OK. Otherwise returns TOOL_INVALID_ARGUMENTS, TOOL_FILE_TOO_LARGE (content) or
 * TOOL_NAME_TOO_LONG (a path), leaves @ret_args unchanged and stores in @ret_message one sentence
 * that names the argument and its requirement (malloc'ed; NULL if memory is out).
 */
enum tool_error args_decode(const struct tool *tool, struct json_object *arguments,
	struct notes *notes, struct tool_args *ret_args, char **ret_message);

struct call_options {
	int64_t timeout_ms;      /* 0: not given */
	int64_t idle_timeout_ms; /* 0: not given */
	int64_t max_output;      /* 0: not given */
	struct text input;       /* "stdin"; data is NULL if it was not given */
	struct text path_base64; /* as given, not yet decoded; data is NULL if it was not given */
	struct text key;         /* data is NULL if it was not given */
	struct text forget_key;  /* likewise */
	int64_t key_wait_ms;     /* 0: not given */
	int64_t yield_ms;        /* 0: not given */
	/* borrowed: an object of strings without NUL; NULL if it was not given */
	struct json_object *env;
	size_t env_count; /* members of env */
	struct text cwd;  /* data is NULL if it was not given */
	bool stream;
	bool stream_bytes; /* the bytes of streamed output follow their notification */
	bool stdin_stream; /* further input comes while the command runs: tool.input */
	bool input_later;  /* not an option: input comes when it goes on as a session */
	bool keep_output;  /* keep the output for the observation, not only stream it */
	bool line_numbers;
	bool gitignore;
	bool blocked_list;  /* the tenant's blocked commands are refused */
	bool base64;        /* encoding */
	bool reply_message; /* reply is "message", not "observation" */
	bool fast_write;    /* durability is "fast", not "durable" */
	bool preview;       /* transaction is "preview", not "none" */
};

/** Sets the options of a call that gives none. */
void options_defaults(struct call_options *ret_options);

/**
 * Decodes tool.call's @options (NULL: none). Every option is accepted for every tool, so that a
 * program can always send the same set; an option that does not apply has no effect. @tool appears
 * only in the message.
 *
 * Returns 0; or -EINVAL for an unknown option, a wrong type or a value out of range, with
 * @ret_options unchanged and one sentence in @ret_message (malloc'ed; NULL if memory is out).
 */
int options_decode(const struct tool *tool, struct json_object *options,
	struct call_options *ret_options, char **ret_message);
