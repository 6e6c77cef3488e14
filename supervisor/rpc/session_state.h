/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a session, for session.c and the methods that act on it. */

#include "common/utf8.h"
#include "supervisor/call/command_io.h"
#include "supervisor/rpc/endpoint.h"
#include "supervisor/rpc/session.h"
#include "supervisor/workspace/workspace.h"

struct audit;
struct config;
struct control_watcher;
struct json_text;
struct call_request;
struct json_object;
struct observation;
struct mcp_progress;
struct tenant;

/* A workspace that the client has opened. */
struct session_workspace {
	LIST_ENTRY(session_workspace) entry;
	struct workspace *workspace;
};

/* A workspace.open or workspace.remove that is not answered yet. */
struct session_pending {
	LIST_ENTRY(session_pending) link;
	struct session *session; /* NULL: the client is gone */
	/* The client is gone: takes it out of the session, and may free it. */
	void (*leave)(struct session_pending *pending);
	struct audit *audit;
	char *id_text;
	struct workspace_entry entry;
	struct workspace *workspace; /* held; NULL: its directory is being looked up */
	struct root_look *look;      /* that look-up */
	enum workspace_kind kind;    /* which it is to be */
	char *tenant, *path;         /* whose, and as it was asked for */
};

/* The beginning of a character whose end has not come yet. */
struct session_carry {
	char bytes[UTF8_SEQUENCE_MAX];
	size_t len;
};

struct session_reply;
struct session_call;

/* In which form a call is answered. agent/ has the forms: the observation, the message that goes
 * back to a model, and the result of MCP's tools/call. */
struct reply_form {
	void (*write)(struct json_text *json, const struct session_reply *reply,
		const struct observation *observation);
	/* The call is about to begin. May be NULL. */
	void (*begin)(struct session_call *call, struct call_request *request);
	/* Its command wrote something, of a call with options.stream; and that is over. */
	void (*output)(struct session_call *call, enum command_stream stream, struct text data);
	void (*output_over)(struct session_call *call); /* may be NULL */
	/* It names (@named) a workspace that there is not, or there is none to be the default. */
	void (*no_workspace)(struct session *session, const struct jsonrpc_request *request,
		const struct session_reply *reply, struct json_object *params, bool named);
	void (*done)(struct session_reply *reply); /* frees what it holds; may be NULL */
	bool as_string; /* what is written holds the observation once more, as a string */
};

struct session_reply {
	const struct reply_form *form;
	char *tool_call_id;            /* as JSON text; NULL: the model's call had none */
	uint8_t revision;              /* enum mcp_revision */
	struct mcp_progress *progress; /* NULL: nobody asked to be told */
};

struct session_call {
	LIST_ENTRY(session_call) entry;
	struct session *session;
	struct call *call;
	char *id_text;   /* of the request; NULL: a notification, not answered */
	uint64_t seq;    /* of tool.output */
	size_t bytes;    /* of memory, that the request takes until it is answered */
	bool beyond;     /* it may have had no room but the connection's own */
	size_t n_inputs; /* tool.input that are not answered */
	bool stream_base64;
	bool silent; /* cancelled as MCP has it: nothing more is said about it */
	struct session_reply reply;
	struct session_carry carry[COMMAND_STREAMS];
};

struct session {
	struct service *service;
	const struct endpoint *endpoint;
	bool admitted;
	enum control_role role;          /* at the control socket */
	struct control_watcher *watcher; /* NULL: it has not asked for events */
	struct session_connection connection;
	struct unread_account unread;
	struct peer_credentials peer;
	struct config *config;   /* held: the one that the tenants below are of */
	struct tenant **tenants; /* that the peer may act for, in the configuration's order */
	size_t n_tenants;
	int64_t began;          /* as clock_now() */
	struct tenant *counted; /* held: the tenant that the connection counts for, or NULL */
	struct workspace *default_workspace; /* one of workspaces, or NULL */
	LIST_HEAD(, session_workspace) workspaces;
	LIST_HEAD(, session_call) calls;
	LIST_HEAD(, session_pending) pending;
	size_t n_calls, n_pending, n_workspaces;
	size_t bytes;                    /* of memory, that the requests of calls take */
	size_t beyond;                   /* likewise, those with no room but the connection's */
	size_t request_bytes;            /* likewise, the request at hand */
	size_t request_left;             /* what values made of a part of it may take beside */
	size_t input_bytes;              /* of lines that have not ended or been acted on */
	const struct error_form *errors; /* of the request at hand; NULL: the endpoint's */
	bool paused;
	uint8_t mcp_agreed; /* enum mcp_revision: by initialize */
};

/** Holds the configuration as it is now in place of the one that it was authorized by. */
void session_take_config(struct session *session);

/* The answers to a request; none where @id_text is NULL. Each is one whole line. */
void session_answer_begin(struct session *session, struct json_text *ret_json, const char *id_text);
void session_answer_end(struct session *session, struct json_text *json);
void session_answer_error(struct session *session, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code);
/* Something ran out for a moment. */
void session_answer_busy(struct session *session, const char *id_text, const char *message);

/** Finds what the client may do at the agent socket, now: as struct endpoint's authorize. */
int session_authorize(struct session *session);

/**
 * The tenant called @name that the client may act for; data NULL: that of its default workspace, or
 * else the first. NULL: there is none, or it may not: a client is not told which.
 */
struct tenant *session_tenant(const struct session *session, struct text name);

/** Whether the client may have @workspace open, as things are configured now. */
bool session_may_use(const struct session *session, const struct workspace *workspace);

/** The workspace that the client has opened under @name (data NULL: its default), or NULL. @tenant
 * (data NULL: any) tells two of one name apart; otherwise it is the one opened last. */
struct workspace *session_find_workspace(
	struct session *session, struct text name, struct text tenant);

/** Remembers @workspace, whose hold is taken, as opened and as the default. 0 or -ENOMEM. */
int session_add_workspace(struct session *session, struct workspace *workspace);

/** Forgets and releases it. */
void session_drop_workspace(struct session *session, struct workspace *workspace);

/** A string among @params, borrowed; data is NULL when it is absent. False when it is something
 * else. */
static inline bool session_string_param(
	struct json_object *params, const char *name, struct text *ret)
{
	return jsonrpc_string_param(params, name, ret);
}

/** Counts @call, whose session is @session and whose request takes @bytes of memory, in; and out
 * and frees it. */
void session_add_call(struct session *session, struct session_call *call, size_t bytes);
void session_free_call(struct session_call *call);

/** The call with the request id @id_text, or NULL. */
struct session_call *session_find_call(struct session *session, const char *id_text);

/** Frees what @reply holds. */
void session_reply_done(struct session_reply *reply);
