/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcloister: tool calls to a cloisterd. libcloister(3) has examples.
 *
 * A connection keeps no thread, no signal handler and no global state, prints nothing and ends
 * nothing. One thread at a time may use a connection; different connections have nothing to do with
 * each other. Functions that return int return 0 (or what is said) or a negative errno(3) value.
 * JSON goes in and comes out as UTF-8 text.
 */
#ifndef CLOISTER_H
#define CLOISTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cloister;         /* a connection */
struct cloister_message; /* a reply, or a notification */
struct cloister_object;  /* a JSON object that is being made */

/* Why a request or a tool failed. New codes are added at the end. */
enum cloister_error {
	CLOISTER_ERROR_NONE = 0,
	CLOISTER_ERROR_OTHER, /* none of these; cloister_error_name() has its name, if it has one */
	CLOISTER_ERROR_PATH_OUTSIDE_WORKSPACE,
	CLOISTER_ERROR_SYMLINK_OUTSIDE_WORKSPACE,
	CLOISTER_ERROR_COMMAND_BLOCKED,
	CLOISTER_ERROR_FILE_TOO_LARGE,
	CLOISTER_ERROR_UNKNOWN_TOOL,
	CLOISTER_ERROR_INVALID_ARGUMENTS,
	CLOISTER_ERROR_NOT_FOUND,
	CLOISTER_ERROR_NOT_A_DIRECTORY,
	CLOISTER_ERROR_IS_A_DIRECTORY,
	CLOISTER_ERROR_NOT_A_REGULAR_FILE,
	CLOISTER_ERROR_PERMISSION_DENIED,
	CLOISTER_ERROR_TOO_MANY_LINKS,
	CLOISTER_ERROR_NAME_TOO_LONG,
	CLOISTER_ERROR_NO_SPACE,
	CLOISTER_ERROR_INVALID_PATTERN,
	CLOISTER_ERROR_PATTERN_TOO_COMPLEX,
	CLOISTER_ERROR_TIMEOUT,
	CLOISTER_ERROR_CANCELLED,
	CLOISTER_ERROR_OUTPUT_LIMIT,
	CLOISTER_ERROR_MEMORY_LIMIT,
	CLOISTER_ERROR_PROCESS_LIMIT,
	CLOISTER_ERROR_BUSY,
	CLOISTER_ERROR_QUOTA_EXCEEDED,
	CLOISTER_ERROR_FORBIDDEN,
	CLOISTER_ERROR_WORKSPACE_NOT_FOUND,
	CLOISTER_ERROR_WORKER_LOST,
	CLOISTER_ERROR_SHUTTING_DOWN,
	CLOISTER_ERROR_EXECUTION_ERROR
};

/* What cloister_json_error() tells, JSON-RPC 2.0 section 5.1. */
enum cloister_json_error {
	CLOISTER_JSON_PARSE_ERROR = -32700,
	CLOISTER_JSON_INVALID_REQUEST = -32600,
	CLOISTER_JSON_METHOD_NOT_FOUND = -32601,
	CLOISTER_JSON_INVALID_PARAMS = -32602,
	CLOISTER_JSON_INTERNAL_ERROR = -32603,
	CLOISTER_JSON_SERVER_ERROR = -32000 /* cloister_error() says which */
};

enum cloister_stream { CLOISTER_STDOUT = 1, CLOISTER_STDERR = 2 };

/*
 * Handlers are called by cloister_dispatch() and by the functions that wait, and by nothing else.
 * They may start, cancel and forget requests, pause and close the connection; a function that waits
 * or dispatches fails in them with -EDEADLK. Messages and data are theirs until they return.
 */

/** The answer to request @id: @error is 0 and @reply is it, or @reply is NULL and the connection
 * ended with @error before it came. Called once for each request that has such a handler, unless
 * that is forgotten or the connection is closed first. */
typedef void cloister_reply_handler(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata);

/** Output of the command of call @id, as it is written: the bytes themselves. */
typedef void cloister_output_handler(struct cloister *cloister, int64_t id,
	enum cloister_stream stream, const void *data, size_t len, void *userdata);

/** A notification other than a streamed call's output. */
typedef void cloister_notification_handler(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata);

/* Connections */

/**
 * Connects to the service that listens at @path. NULL: at the first of $CLOISTER_SOCKET,
 * $XDG_RUNTIME_DIR/cloister/agent.sock, /run/user/UID/cloister/agent.sock and
 * /run/cloister/agent.sock where one answers; -ENOENT: at none. Whoever serves a path that is
 * named, by @path or $CLOISTER_SOCKET, is believed; at the other places only root, the caller
 * and the owner of /run/cloister are; -EPERM: nobody else answered there. Waits at most 10 seconds
 * where more connect than the service accepts, then -EAGAIN.
 */
int cloister_open(const char *path, struct cloister **ret_cloister);

/** As cloister_open(), on a connected stream socket, which it takes on success. The descriptor's
 * flags are left as they are and do not matter. */
int cloister_open_fd(int fd, struct cloister **ret_cloister);

/** Closes the connection, which ends its calls. No handler is called. In a handler it takes effect
 * when that returns. NULL is allowed. */
void cloister_close(struct cloister *cloister);

/* Requests. @params, arguments and options are the text of a JSON object, NULL: an empty one;
 * -EINVAL: it is none. @on_reply NULL: the answer is kept for cloister_wait(). */

/** Queues a request of any method. 0 with its id, -ENOBUFS: more than 64 MiB wait to be sent, or
 * the error that has ended the connection. */
int cloister_start(struct cloister *cloister, const char *method, const char *params,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/** Queues the opening of @workspace: a directory's absolute path, or the name of a managed one. It
 * becomes the workspace of calls that name none. As cloister_start(). */
int cloister_start_workspace(struct cloister *cloister, const char *workspace,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/* A tool call. What is not set must be zero. */
struct cloister_tool_call {
	const char *tool;
	const char *arguments;
	const char *tool_call; /* instead of both: a model's tool call, as it came */
	const char *options;
	const char *workspace; /* opened before; NULL: the one opened last */
	int64_t timeout_ms;    /* a deadline for the service to keep; 0: none but the tool's */
	/* Called with a command's output as it comes; NULL: it comes with the reply alone. Unless
	 * @options name an "encoding", the reply's output is then base64: cloister_get_bytes(). */
	cloister_output_handler *on_output;
	cloister_reply_handler *on_reply;
	void *userdata;
	void *reserved[4];
};

/** Queues a tool call. As cloister_start(). */
int cloister_start_call(
	struct cloister *cloister, const struct cloister_tool_call *call, int64_t *ret_id);

/** Asks for the end of call @id, which is then answered with what there is. -ENOENT: it is
 * answered, or never was. As cloister_start(). */
int cloister_cancel(struct cloister *cloister, int64_t id);

/** Neither output nor answer of @id is wanted any more; it goes on unless it is cancelled, before
 * this. -ENOENT as cloister_cancel(). */
int cloister_forget(struct cloister *cloister, int64_t id);

/* Waiting */

/**
 * Waits for the answer of @id, which has no handler; meanwhile other requests' handlers are called.
 * 0 with the reply, to be freed; -ETIMEDOUT after @timeout_ms (-1: never), and it can be waited for
 * again; -ENOENT; -EINVAL: it has a handler; or an error of cloister_dispatch().
 */
int cloister_wait(
	struct cloister *cloister, int64_t id, int timeout_ms, struct cloister_message **ret_reply);

/** cloister_start() and cloister_wait(). */
int cloister_request(struct cloister *cloister, const char *method, const char *params,
	struct cloister_message **ret_reply);

/** cloister_start_workspace() and cloister_wait(). */
int cloister_workspace(
	struct cloister *cloister, const char *workspace, struct cloister_message **ret_reply);

/** cloister_start_call() and cloister_wait(). @call has no on_reply. */
int cloister_call(struct cloister *cloister, const struct cloister_tool_call *call,
	struct cloister_message **ret_reply);

/* Event loops: watch the descriptor, level-triggered, for the events, and dispatch. */

/** The connected socket, borrowed. */
int cloister_fd(const struct cloister *cloister);

/** The poll(2) events to watch for: POLLIN, POLLOUT, both, or 0: do not watch. To be asked for
 * again after any other function. */
short cloister_events(const struct cloister *cloister);

/**
 * Sends, receives and calls handlers, as far as it goes without waiting and a bounded amount at
 * a time. 0, or the error that has ended the connection, once all handlers have been told:
 * -ECONNRESET: the service closed it; -EBADMSG: a line that is no JSON object; -EMSGSIZE: one that
 * is too long or has too many values; -EPROTO: a message that no request asked for, or that makes
 * no sense; -ECANCELED: a handler has closed it, and it is gone; another of recv(2).
 */
int cloister_dispatch(struct cloister *cloister);

/** While paused, cloister_dispatch() reads nothing and calls no handler of what has come, so the
 * service is held up. After an end of it cloister_dispatch() is to be called. */
void cloister_pause(struct cloister *cloister, bool paused);

/** Bytes that wait to be sent. */
size_t cloister_unsent(const struct cloister *cloister);

/** Sets what is called with notifications, instead of what was set. NULL: they are dropped. */
void cloister_on_notification(
	struct cloister *cloister, cloister_notification_handler *handler, void *userdata);

/* Messages. A reply is a result or an error. Pointers, RFC 6901, go into the result, the error
 * object or the notification's params: "/output/stdout", "/output/matches/0/line", "" for all. */

void cloister_message_free(struct cloister_message *message);

/** Whether it is a result and not of a tool that failed. */
bool cloister_succeeded(const struct cloister_message *message);

/** Why the request or the tool failed; CLOISTER_ERROR_NONE: it did not. */
enum cloister_error cloister_error(const struct cloister_message *message);

/** Its name, such as "NOT_FOUND", or NULL where it did not fail or has none. */
const char *cloister_error_name(const struct cloister_message *message);

/** A sentence about it, or NULL where it did not fail. Of the service; may repeat strangers' text.
 */
const char *cloister_error_message(const struct cloister_message *message);

/** The error's number where the request failed, see enum cloister_json_error; 0: it did not. */
int cloister_json_error(const struct cloister_message *message);

/** A string, which may hold NULs, borrowed from @message; its length in @ret_len unless that is
 * NULL. NULL: there is none. */
const char *cloister_get_string(
	const struct cloister_message *message, const char *pointer, size_t *ret_len);

/** The bytes that a string has in base64, for the caller to free(3). -ENOENT; -EINVAL: it is
 * something else; -ENOMEM. */
int cloister_get_bytes(const struct cloister_message *message, const char *pointer, void **ret_data,
	size_t *ret_len);

/** An integer. -ENOENT; -EINVAL: it is something else. */
int cloister_get_int64(
	const struct cloister_message *message, const char *pointer, int64_t *ret_value);

/** As cloister_get_int64(). */
int cloister_get_bool(const struct cloister_message *message, const char *pointer, bool *ret_value);

/** How many elements or members an array or object has. As cloister_get_int64(). */
int cloister_get_count(
	const struct cloister_message *message, const char *pointer, size_t *ret_count);

/** Any value as JSON, in one line or, if @pretty, indented; borrowed until the next call of this
 * function. NULL: there is none, or no memory. */
const char *cloister_get_json(
	const struct cloister_message *message, const char *pointer, bool pretty);

/* Objects, for params, arguments and options. What cannot be added makes cloister_object_text()
 * fail too, so that one look at the end will do. */

/** NULL: out of memory. */
struct cloister_object *cloister_object_new(void);
void cloister_object_free(struct cloister_object *object);

/** Its text, borrowed until it is changed. NULL: something could not be added, or no memory. */
const char *cloister_object_text(struct cloister_object *object);

/** Adds UTF-8, which may hold NULs. -EINVAL: it is something else; -ENOMEM. */
int cloister_object_string(
	struct cloister_object *object, const char *name, const char *data, size_t len);

/** Adds bytes as base64. */
int cloister_object_bytes(
	struct cloister_object *object, const char *name, const void *data, size_t len);

int cloister_object_int64(struct cloister_object *object, const char *name, int64_t value);
int cloister_object_bool(struct cloister_object *object, const char *name, bool value);

/** Adds any value. -EINVAL: @json is not one. */
int cloister_object_json(struct cloister_object *object, const char *name, const char *json);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
