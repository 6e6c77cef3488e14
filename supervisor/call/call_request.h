/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From tool.call's JSON to a checked request: the model's form, the tool, its arguments, the
 * options, the path rules and the blocked commands, in this order. Whatever the program around the
 * model got wrong is a protocol error; what the model got wrong is an observation.
 */

#include "common/errors.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/args_decode.h"

#include <sys/types.h>

struct json_object;
struct tenant;

struct call_request {
	const struct tool *tool;
	struct tool_args args;       /* texts borrowed from json, or from decoded */
	struct call_options options; /* likewise */
	char *path;    /* relative to the root, checked as a string; NULL for run_command */
	char *decoded; /* what came as base64 */
	struct json_object *json; /* a reference: an array of the params and the arguments */
	size_t memory; /* what it is counted for: of the values above, and of the whole request */
	size_t large;  /* of that, the string that is content or input */
	struct tenant *tenant; /* as it was configured when the call came: held */
	uid_t uid;             /* whose it is, for the audit log */
	gid_t gid;
	pid_t pid;
};

/* What is wrong with a request. */
struct call_refusal {
	struct refusal why; /* its error TOOL_OK: the params are wrong, a protocol error */
	char *tool;         /* as it was named, or NULL */
};

/**
 * Reads @params of tool.call for a workspace of @tenant seen at @visible_root. Arguments that came
 * as a string may take @memory once more. 0 and a request to
 * be released with call_request_done, or -EINVAL and a refusal to be released with
 * call_refusal_done.
 */
int call_request_read(struct json_object *params, size_t memory, struct text visible_root,
	struct tenant *tenant, struct call_request *ret_request, struct call_refusal *ret_refusal);

/** Frees what came twice, as base64 and as it means. Once the audit log has what it wants. */
void call_request_drop_encoded(struct call_request *request);

/** Frees content and input, which have been sent. What the answer repeats stays. */
void call_request_drop_sent(struct call_request *request);

void call_request_done(struct call_request *request);
void call_refusal_done(struct call_refusal *refusal);
