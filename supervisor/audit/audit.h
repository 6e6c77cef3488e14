/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The audit log: the client, its request, the decision and the result, one JSON line
 * (common/chain/audit_chain.h) for each event. These functions never wait for a disk
 * (audit_writer.h). All accept NULL for an audit log that is off. The digest of a call's arguments
 * is that of supervisor/call/request/call_digest.h.
 */

#include "common/errors.h"
#include "common/text.h"
#include "supervisor/workspace/managed/properties.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct audit;
struct audit_rotation;
struct call;
struct observation;
struct peer_credentials;
struct tenant;
struct forking;
struct workspace;

/* Values of the key `audit`. */
enum audit_mode { AUDIT_OFF, AUDIT_ON, AUDIT_REQUIRED };

struct audit_state {
	bool required;
	uint64_t lines; /* in the chain */
	char hash[65];  /* of the last line */
	uint64_t lost, queued_bytes;
	int error; /* the errno for which nothing can be written now, or 0 */
};

/**
 * Opens the log @path and makes its directory if that is missing. Call it before lock-down. Returns
 * 0 or -errno.
 */
int audit_new(
	const char *path, bool required, const struct audit_rotation *rotation, struct audit **ret);

/** Starts writing, after lock-down. Returns 0 or -errno. */
int audit_start(struct audit *audit);

/** Logs how many lines could not be written, and frees @audit. */
void audit_free(struct audit *audit);

/** Opens the file again, because it may have been renamed. */
void audit_reopen(struct audit *audit);

/**
 * For the hand-over to another generation of cloisterd, as the functions of audit_writer.h. NULL is
 * allowed, and counts as held.
 */
void audit_hold(struct audit *audit);
bool audit_is_held(struct audit *audit);
void audit_resume(struct audit *audit);
void audit_relay(struct audit *audit, int fd);

/** Chains and writes a line that another generation of cloisterd has relayed. */
void audit_relayed(struct audit *audit, struct text members);

/**
 * Returns NULL if calls may be admitted, otherwise a sentence that says why not, in static storage.
 */
const char *audit_forbids(const struct audit *audit);

/**
 * Returns NULL if @tenant may have a further call in flight, whose end the queue must have room
 * for; otherwise a sentence that says why not, in static storage.
 */
const char *audit_refuses_call(const struct audit *audit, const struct tenant *tenant);

/**
 * Sets the number of @tenants that share the queue's room (common/budget.h), at the start and after
 * a reload.
 */
void audit_share(struct audit *audit, size_t tenants);

/** Stores the state of the log. Returns false if there is no log. */
bool audit_look(const struct audit *audit, struct audit_state *ret);

/* Functions of a struct call_observer whose context is a struct audit. */
void audit_call_admitted(void *context, const struct call *call);
void audit_call_ended(
	void *context, const struct call *call, const struct observation *observation);

/**
 * Records a call that was refused before it became a call. @tool, as the client named it, and
 * @workspace may be NULL.
 */
void audit_call_refused(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, const char *code);

/**
 * Records a call whose key an earlier call had: "call.replayed", or "call.outcome_unknown" for the
 * @error OUTCOME_UNKNOWN.
 */
void audit_call_replayed(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, enum tool_error error);

/** Records a client that fits no tenant, or that has no role. */
void audit_unauthorized_client(
	struct audit *audit, const struct peer_credentials *peer, const char *socket_name);

/** Records that cloister-gate acts for @tenant, and with a key (@peer has it), from now on. */
void audit_bound(struct audit *audit, const struct peer_credentials *peer,
	const struct tenant *tenant, struct text workspace);

/**
 * Records that @event happened to @workspace: "workspace.opened", "workspace.closed" or
 * "workspace.removed".
 */
void audit_workspace(struct audit *audit, const char *event, const struct peer_credentials *peer,
	const struct workspace *workspace);

/** Records that the lease of @tenant's workspace @name has ended, and that it was closed or
 * removed.
 */
void audit_lease_ended(
	struct audit *audit, const struct tenant *tenant, const char *name, enum lease_end at_end);

/**
 * Records that @tool acts on @client of @workspace, or (NULL) lists all. @arguments is their
 * digest; NULL: memory was out.
 */
void audit_session_used(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *tool, const char *session,
	const char *arguments);

/**
 * Records @event of @workspace: "workspace.checkpointed", "workspace.rolled_back",
 * "workspace.committed" or "workspace.discarded", with the number of the checkpoint.
 */
void audit_checkpoint(struct audit *audit, const char *event, const struct peer_credentials *peer,
	const struct workspace *workspace, uint32_t number);

/** Records that a client made the template @template of @workspace, and @replaced another. */
void audit_frozen(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, const char *template, bool replaced);

/** Records that a client made @forking's workspaces. */
void audit_forked(
	struct audit *audit, const struct peer_credentials *peer, const struct forking *forking);

/** Records that a client's connection becomes one to @port of @workspace. */
void audit_forward(struct audit *audit, const struct peer_credentials *peer,
	const struct workspace *workspace, uint16_t port);

/**
 * Records that @event, "workspace.open", "workspace.remove", "workspace.checkpoint",
 * "workspace.checkpoints", "workspace.rollback", "workspace.freeze" or "workspace.fork", was
 * refused for @name.
 */
void audit_workspace_refused(struct audit *audit, const char *event,
	const struct peer_credentials *peer, struct text name, enum tool_error error);

/**
 * Records an act of an administrator, or an observer's refused attempt: @outcome is "done" or an
 * error code. @target may be empty. @peer is NULL if a signal asked for it.
 */
void audit_act(struct audit *audit, const struct peer_credentials *peer, const char *act,
	struct text target, const char *outcome);
