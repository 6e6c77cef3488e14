/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The inside of a session, for session.c and the methods that act on it. */

#include "common/utf8.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/result/shown.h"
#include "supervisor/connection/client.h"
#include "supervisor/connection/endpoint.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_calls.h"

struct audit;
struct config;
struct control_watcher;
struct files_event;
struct files_node;
struct json_text;
struct call_request;
struct json_object;
struct observation;
struct mcp_ext_offer;
struct mcp_progress;
struct tenant;

/* A workspace that the client has opened. */
struct client_workspace {
	LIST_ENTRY(client_workspace) entry;
	struct workspace *workspace;
	bool told; /* a model has got the note about this workspace */
};

/* A workspace.open or workspace.remove that is not answered yet. */
struct client_pending {
	LIST_ENTRY(client_pending) link;
	struct client *client; /* NULL: the client is gone */
	/* The client is gone: takes it out of the session, and may free it. */
	void (*leave)(struct client_pending *pending);
	/*
	 * It is a call, and its client cancels it (@silent: and wants no answer): takes it out of
	 * the session. NULL: it cannot be cancelled.
	 */
	void (*cancel)(struct client_pending *pending, bool silent);
	/* The client reads again; must not end any. May be NULL. */
	void (*resume)(struct client_pending *pending);
	struct service *service;
	struct audit *audit;
	bool is_preview; /* of workspace, which the client has made */
	char *id_text;
	struct workspace_entry entry; /* of an opening */
	struct workspace *workspace;  /* held; NULL while its directory is looked up */
	struct root_look *look;       /* the look-up */
	enum workspace_kind kind;     /* the requested kind */
	char *tenant, *path;          /* the tenant, and the path as requested */
	char *allow;                  /* rules that its network is narrowed to; NULL: it is not */
};

/* The bytes of a character that is not complete yet. */
struct client_carry {
	char bytes[UTF8_SEQUENCE_MAX];
	size_t len;
};

struct client_reply;
struct client_call;
struct transaction;

/*
 * The form in which a call is answered. agent/ has the forms: the observation, a message for a
 * model, and the result of MCP's tools/call.
 */
struct reply_form {
	void (*write)(struct json_text *json, const struct client_reply *reply,
		const struct observation *observation);
	/* The call is about to begin. May be NULL. */
	void (*begin)(struct client_call *call, struct call_request *request);
	/* It has begun. May be NULL. */
	void (*begun)(struct client_call *call);
	/*
	 * Takes the observation, in place of an answer; called also if @id_text is NULL. NULL: it
	 * is answered, as write writes it.
	 */
	void (*take)(struct client *client, const char *id_text, const struct client_reply *reply,
		const struct observation *observation);
	/* The command of a call with options.stream wrote something; its output has ended. */
	void (*output)(struct client_call *call, enum command_stream stream, struct text data);
	void (*output_over)(struct client_call *call); /* may be NULL */
	/* Of file.watch: it is watched from now on; something has changed. */
	void (*watched)(struct client_call *call, const struct files_node *node);
	void (*event)(struct client_call *call, const struct files_event *event);
	/* The named workspace (@named) does not exist, or there is no default one. */
	void (*no_workspace)(struct client *client, const struct jsonrpc_request *request,
		const struct client_reply *reply, struct json_object *params, bool named);
	void (*done)(struct client_reply *reply); /* frees its contents; may be NULL */
	enum reader reader;
	bool program_moves; /* MOVED is for the program: an error of the request, no observation */
};

struct client_reply {
	const struct reply_form *form;
	char *tool_call_id; /* as JSON text; NULL: the model's call had none */
	uint8_t revision;   /* enum mcp_revision */
	bool told;          /* what holds in the workspace, which a first answer says otherwise */
	bool as_json;       /* for a program (encoding base64), also a refusal */
	struct mcp_progress *progress;   /* NULL: no progress was asked for */
	struct mcp_ext_offer *offer;     /* to become a task; NULL: none */
	struct transaction *transaction; /* it is a preview's; NULL: it is none; borrowed */
	uint64_t watch;                  /* the number that file.watch was answered with; 0: none */
};

struct client_call {
	LIST_ENTRY(client_call) entry;
	struct client *client;
	struct call *call;
	const struct workspace *workspace; /* in which it was begun, to compare with */
	char *id_text;   /* of the request; NULL: a notification, which is not answered */
	uint64_t seq;    /* sequence number of tool.output */
	size_t bytes;    /* memory that the request takes until it is answered */
	bool beyond;     /* it was admitted from the memory that every connection has */
	size_t n_inputs; /* number of tool.input requests without an answer */
	bool stream_base64, stream_bytes;
	bool silent; /* cancelled by MCP: no answer is sent */
	struct client_reply reply;
	struct client_carry carry[COMMAND_STREAMS];
};

/* The fate of the bytes behind a line. */
struct client_payload {
	size_t left;   /* 0: lines follow */
	bool dropped;  /* its line has been refused */
	char *id_text; /* of the line's request */
	char *call_id; /* of the call that it is input of */
	bool eof;
	/* Acts on all of the payload. Takes the needed part of @payload. */
	void (*act)(struct client *client, struct client_payload *payload, struct text data);
};

struct client {
	struct service *service;
	const struct endpoint *endpoint;
	bool admitted;
	bool is_gate; /* it acts for nobody until it is bound */
	struct {
		char *tenant;    /* the only one that it may act for; NULL: it is not bound */
		char *workspace; /* the only one that it may use; NULL: any of the tenant's */
	} bound;
	bool moving; /* its client moves workspaces, which are not moved for it (agent_moved()) */
	enum control_role role;          /* at the control socket */
	struct control_watcher *watcher; /* NULL: it has not asked for events */
	struct client_connection connection;
	struct unread_account unread;
	struct peer_credentials peer;
	struct config *config;   /* held: the configuration of the tenants below */
	struct tenant **tenants; /* that the peer may act for, in the configuration's order */
	size_t n_tenants;
	int64_t began;          /* as clock_now() */
	struct tenant *counted; /* held: the tenant that the connection counts for, or NULL */
	struct workspace *default_workspace; /* one of workspaces, or NULL */
	LIST_HEAD(, client_workspace) workspaces;
	LIST_HEAD(, client_call) calls;
	LIST_HEAD(, client_pending) pending;
	size_t n_calls, n_pending, n_workspaces;
	size_t n_watching; /* requests of n_pending that wait for a session's output */
	size_t bytes;      /* memory that the requests of calls take */
	/* the part of it that comes from the memory that every connection has */
	size_t beyond;
	size_t request_bytes;            /* memory of the current request */
	size_t request_left;             /* memory left for values made from parts of it */
	struct client_payload payload;   /* of the last line */
	bool speaks_mcp;                 /* it has used a method of MCP */
	uint64_t told_retiring;          /* of the service's retirings */
	uint64_t tools_left_out;         /* of those that the tenant is offered (enum tool_set) */
	bool sends_payloads;             /* the client has sent one, or asked whether it may */
	size_t input_bytes;              /* memory of input that is not handled yet */
	const struct error_form *errors; /* for the current request; NULL: the endpoint's */
	bool paused;
	bool text_only;     /* results of MCP have no structured content */
	uint8_t mcp_agreed; /* enum mcp_revision, agreed by initialize */
};

/** Returns the memory that the connection has whatever other connections use. */
size_t client_own_left(const struct client *client);

/** Holds the present configuration in place of the one by which the client was authorized. */
void client_take_config(struct client *client);

/*
 * Write the answers to a request, each one complete line; nothing if @id_text is NULL. An answer's
 * result is an object, whose members the caller writes.
 */
void client_answer_begin(struct client *client, struct json_text *ret_json, const char *id_text);
/* These end also a notification (jsonrpc.h). */
void client_answer_end(struct client *client, struct json_text *json);
/* The same, with bytes that follow the line; the message says how many. */
void client_answer_end_with(struct client *client, struct json_text *json, struct text payload);
/* The same for a result that the caller writes as one value. */
void client_value_begin(struct client *client, struct json_text *ret_json, const char *id_text);
void client_value_end(struct client *client, struct json_text *json);
void client_answer_error(struct client *client, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code);
/* Answers that memory or descriptors ran out for a moment. */
void client_answer_busy(struct client *client, const char *id_text, const char *message);
/* Answers the refusal, which is BUSY, and says when to try again. */
void client_answer_not_now(
	struct client *client, const char *id_text, const struct refusal *refusal);
/* Answers that the work goes on at another host: @refusal is of MOVED. */
void client_answer_moved(struct client *client, const char *id_text, const struct refusal *refusal);

/** Decides what the client may do at the agent socket, as struct endpoint's authorize. */
int client_authorize(struct client *client);

/**
 * Binds the connection to @tenant, of those that it may act for, and to @workspace (data NULL: to
 * none), for good. Returns 0, -EPERM if it may not act for the tenant or is bound already, or
 * -ENOMEM.
 */
int client_bind(struct client *client, struct text tenant, struct text workspace);

/** Whether the client, which may be bound to one workspace, may use the one called @name. */
bool client_may_name(const struct client *client, struct text name);

/**
 * Returns the tenant called @name that the client may act for; with data NULL that of its default
 * workspace, otherwise its first. NULL if there is none or the client may not use it; the client
 * cannot distinguish the two.
 */
struct tenant *client_tenant(const struct client *client, struct text name);

/**
 * Returns the set of tools (enum tool_set) that the tenant of the workspace opened as @workspace
 * (data NULL: the default) is offered; without one, that of client_tenant()'s.
 */
uint64_t client_tools(struct client *client, struct text workspace);

/** Returns the set that a client of @tenant is offered on this connection. */
uint64_t client_tools_of(const struct client *client, const struct tenant *tenant);

/** Whether the client may have @workspace open under the present configuration. */
bool client_may_use(const struct client *client, const struct workspace *workspace);

/**
 * Returns the workspace that the client has opened under @name (data NULL: its default), or NULL.
 * @tenant (data NULL: any) distinguishes two of one name; otherwise the one opened last is
 * returned.
 */
struct workspace *client_find_workspace(
	struct client *client, struct text name, struct text tenant);

/** Adds @workspace, whose hold it takes, as opened and as the default. Returns 0 or -ENOMEM. */
int client_add_workspace(struct client *client, struct workspace *workspace);

/** Removes and releases it. */
void client_drop_workspace(struct client *client, struct workspace *workspace);

/**
 * Stores a string member of @params, borrowed; data is NULL if it is absent. Returns false if it
 * has another type.
 */
static inline bool client_string_param(
	struct json_object *params, const char *name, struct text *ret)
{
	return jsonrpc_string_param(params, name, ret);
}

/**
 * Adds @call, whose session is @client and whose request takes @bytes of memory; removes and frees
 * it.
 */
void client_add_call(struct client *client, struct client_call *call, size_t bytes);
void client_free_call(struct client_call *call);

/** Returns the call with the request id @id_text, or NULL. */
struct client_call *client_find_call(struct client *client, const char *id_text);

/** Returns the waiting request with this id that can be cancelled as a call, or NULL. */
struct client_pending *client_find_waiting(struct client *client, const char *id_text);

void client_payload_done(struct client_payload *payload);

/** Returns the preview of @workspace that the client has made, or NULL. */
struct client_pending *client_find_preview(
	const struct client *client, const struct workspace *workspace);

/** Frees what @reply holds. */
void client_reply_done(struct client_reply *reply);
