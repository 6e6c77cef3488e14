/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns tool.call's JSON into a checked request. It checks the form of a model's call, the tool,
 * its arguments, the options, the path rules and the blocked commands, in this order. A mistake of
 * the program around the model is a protocol error; a mistake of the model is an observation.
 */

#include "common/chain/audit_chain.h"
#include "common/errors.h"
#include "common/wire/wire_commands.h"
#include "supervisor/base/refusal.h"
#include "supervisor/call/request/args_decode.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/call/result/shown.h"
#include "supervisor/workspace/workspace_calls.h"

#include <sys/types.h>

struct json_object;
struct tenant;

/* The key of a call that has one (options.key), as call_digest.h computes it. */
struct call_key {
	uint8_t id[AUDIT_HASH_BYTES];
	uint8_t digest[AUDIT_HASH_BYTES];
};

/*
 * The part of a call that runs the command of a session (supervisor/session/). Such a call has no
 * client, and does not count among the commands that take turns.
 */
struct call_session {
	const char *id;                   /* borrowed; NULL: the call is not one */
	const char *name;                 /* likewise; NULL: it has none */
	int64_t lifetime_ms;              /* counted from its beginning */
	struct command_terminal terminal; /* its size at first; 0 rows: none */
};

struct call_request {
	const struct tool *tool;
	struct tool_args args;       /* texts borrowed from params, arguments or decoded */
	struct call_options options; /* texts borrowed like those of args */
	struct shown shown;          /* how much of the result the reader is shown */
	struct notes notes;          /* about the arguments, for the model */
	char *path;    /* relative to the root, checked as a string; NULL for commands */
	char *to;      /* file.move: the new path, likewise; otherwise NULL */
	char *decoded; /* decoded base64 */
	/* file.write: the attributes that the file gets, as on the wire; NULL: those that it had */
	uint8_t *attributes;
	size_t attributes_len;
	struct json_object *params, *arguments; /* references */
	struct call_key key;                    /* if options.key was given */
	struct call_session session;            /* if it is the command of one */
	bool inside;    /* it is of the workspace's preview (workspace_preview.h) */
	bool held;      /* a change of files that waits until its beginning is recorded */
	bool look;      /* and is to find out first what has become of an earlier one */
	size_t memory;  /* bytes that it is counted with: the values above, and the whole request */
	size_t large;   /* the part of memory that is content or input */
	uint64_t tools; /* that the client is offered (enum tool_set) */
	struct tenant *tenant; /* held: as configured when the call came */
	uid_t uid;             /* user of the client, for the audit log */
	gid_t gid;
	pid_t pid;
};

/* Why a request is refused. */
struct call_refusal {
	struct refusal why; /* its error TOOL_OK: the params are wrong, a protocol error */
	char *tool;         /* the name given, or NULL */
	struct notes notes; /* about the arguments, for the model */
	bool names_none; /* it is to act on a command in the background, and does not say which */
};

/**
 * Reads the @params of tool.call for a workspace of @tenant seen at @visible_root, whose answer
 * @reader gets, on a connection that is offered the set @offered (enum tool_set). Arguments that
 * came as a string may take @memory bytes besides. Returns 0 and a request, to be released with
 * call_request_done(), or -EINVAL and a refusal, to be released with call_refusal_done().
 */
int call_request_read(struct json_object *params, size_t memory, struct text visible_root,
	struct tenant *tenant, uint64_t offered, enum reader reader,
	struct call_request *ret_request, struct call_refusal *ret_refusal);

/**
 * Makes a request for what has changed since the checkpoint @since of a workspace of @tenant;
 * @params: of the client's request, or NULL. Returns 0 or -ENOMEM.
 */
int call_request_diff(struct json_object *params, struct tenant *tenant, int64_t since, bool patch,
	struct call_request *ret);

/** Frees base64 that has been decoded. Call it after the audit log has read the request. */
void call_request_drop_encoded(struct call_request *request);

/** Frees content and input, which have been sent. The parts that the answer repeats stay. */
void call_request_drop_sent(struct call_request *request);

void call_request_done(struct call_request *request);
void call_refusal_done(struct call_refusal *refusal);

/** Returns the time after its admission at which a call like @request is ended, in milliseconds. */
int64_t call_timeout_ms(const struct call_request *request);

/** Returns its class, which bounds how many run at once in a workspace. */
enum call_class call_class(const struct call_request *request);

/** Whether the scheduler schedules it (scheduler.h), so that it may have to wait for others. */
bool call_is_scheduled(const struct call_request *request);
