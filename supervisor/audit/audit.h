/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audit log: what was asked for and by whom, what was decided, and how it ended. One JSON line
 * (common/chain/audit_chain.h) per event. Nothing in here waits for a disk (audit_writer.h), and
 * every function takes NULL for an audit log that is off.
 *
 * The digest of a call's arguments is the SHA-256 of its members in the order of their names'
 * bytes, each as NAME NUL TYPE LENGTH NUL VALUE: TYPE is "s" for a string, whose VALUE is its
 * UTF-8, and "j" for anything else, whose VALUE is its JSON without blanks; LENGTH is VALUE's in
 * bytes, decimal. Where options.path_base64 names the file, it stands as the member path_base64 in
 * place of path.
 */

#include "common/errors.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct audit;
struct call;
struct observation;
struct peer_credentials;
struct workspace;

/* What may be set as `audit`. */
enum audit_mode { AUDIT_OFF, AUDIT_ON, AUDIT_REQUIRED };

struct audit_state {
	bool required;
	uint64_t lines; /* in the chain */
	char hash[65];  /* of the last one */
	uint64_t lost, queued_bytes;
	int error; /* an errno: why nothing can be written at the moment, or 0 */
};

/** Opens the log @path, in a directory that is made where it is missing. Before lock-down. 0 and an
 * audit log, or -errno. */
int audit_new(const char *path, bool required, struct audit **ret);

/** After lock-down. 0 or -errno. */
int audit_start(struct audit *audit);

/** Says what it could not write, and frees @audit. */
void audit_free(struct audit *audit);

/** The file may have been renamed. */
void audit_reopen(struct audit *audit);

/** Why no call may be admitted, a sentence with static storage; NULL: it may. */
const char *audit_forbids(const struct audit *audit);

/** False: there is none. */
bool audit_look(const struct audit *audit, struct audit_state *ret);

/* A struct call_observer whose context is a struct audit. */
void audit_call_admitted(void *context, const struct call *call);
void audit_call_ended(
	void *context, const struct call *call, const struct observation *observation);

/** A call that never became one. @tool, as it was named, and @workspace may be NULL. */
void audit_call_refused(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, const char *code);

/** A peer that no tenant, or no role, is for. */
void audit_unauthorized_client(
	struct audit *audit, const struct peer_credentials *peer, const char *socket_name);

/** @event happened to @workspace: "workspace.opened", "workspace.closed" or "workspace.removed". */
void audit_workspace(struct audit *audit, const char *event, const struct peer_credentials *peer,
	const struct workspace *workspace);

/** @event, "workspace.open" or "workspace.remove", of what is called @name was refused. */
void audit_workspace_refused(struct audit *audit, const char *event,
	const struct peer_credentials *peer, struct text name, enum tool_error error);

/** An act of an administrator, or of an observer who may not: @outcome is "done" or a code. @target
 * may be empty; @peer NULL: it came by a signal. */
void audit_act(struct audit *audit, const struct peer_credentials *peer, const char *act,
	struct text target, const char *outcome);
