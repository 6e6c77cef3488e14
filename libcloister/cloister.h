/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcloister: makes tool calls to a cloisterd. libcloister(3) has examples.
 *
 * A connection has no thread, no signal handler and no global state; it never prints or exits. Only
 * one thread at a time may use a connection; different connections are independent. Functions that
 * return int return 0 (unless stated otherwise) or a negative errno(3) value. JSON goes in and
 * comes out as UTF-8 text.
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
struct cloister_object;  /* a JSON object under construction */

/* Why a request or a tool failed. New codes are added at the end. */
enum cloister_error {
	CLOISTER_ERROR_NONE = 0,
	/* any other code; cloister_error_name() returns its name, if it has one */
	CLOISTER_ERROR_OTHER,
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

/* Codes that cloister_json_error() returns, JSON-RPC 2.0 section 5.1. */
enum cloister_json_error {
	CLOISTER_JSON_PARSE_ERROR = -32700,
	CLOISTER_JSON_INVALID_REQUEST = -32600,
	CLOISTER_JSON_METHOD_NOT_FOUND = -32601,
	CLOISTER_JSON_INVALID_PARAMS = -32602,
	CLOISTER_JSON_INTERNAL_ERROR = -32603,
	CLOISTER_JSON_SERVER_ERROR = -32000 /* cloister_error() returns the reason */
};

enum cloister_stream { CLOISTER_STDOUT = 1, CLOISTER_STDERR = 2 };

/*
 * Handlers are called only by cloister_dispatch() and by the functions that wait. They may start,
 * cancel and forget requests, and pause and close the connection. A function that waits or
 * dispatches fails in a handler with -EDEADLK. Messages and data belong to the library and are
 * valid until the handler returns.
 */

/**
 * The answer to request @id. @error is 0 and @reply is the answer; or @reply is NULL and @error is
 * why the connection ended before the answer came. Called once for each request with such a
 * handler, unless the request is forgotten or the connection is closed first.
 */
typedef void cloister_reply_handler(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata);

/** Output of the command of call @id while it runs: the bytes as the command wrote them. */
typedef void cloister_output_handler(struct cloister *cloister, int64_t id,
	enum cloister_stream stream, const void *data, size_t len, void *userdata);

/** A notification other than a streamed call's output. */
typedef void cloister_notification_handler(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata);

/* Connections */

/**
 * Connects to the service that listens at @path. With NULL it tries $CLOISTER_SOCKET,
 * $XDG_RUNTIME_DIR/cloister/agent.sock, /run/user/UID/cloister/agent.sock and
 * /run/cloister/agent.sock in this order. A path from @path or $CLOISTER_SOCKET is trusted. At the
 * other paths the server must run as root, as the caller or as the owner of /run/cloister. Waits at
 * most 10 seconds for the service to accept the connection. Returns -ENOENT if no service was
 * found, -EPERM if the only servers found run as other users, -EAGAIN after 10 seconds.
 */
int cloister_open(const char *path, struct cloister **ret_cloister);

/**
 * Like cloister_open(), on a connected stream socket, which it takes on success. The descriptor's
 * flags are not changed and do not matter.
 */
int cloister_open_fd(int fd, struct cloister **ret_cloister);

/**
 * Closes the connection, which ends its calls. No handler is called. In a handler it takes effect
 * when the handler returns. NULL is allowed.
 */
void cloister_close(struct cloister *cloister);

/*
 * Requests. @params, arguments and options are the text of a JSON object; NULL is an empty one; any
 * other text gives -EINVAL. If @on_reply is NULL, the answer is kept for cloister_wait().
 */

/**
 * Queues a request of any method. Returns 0 with its id, -ENOBUFS if more than 64 MiB wait to be
 * sent, or the error that has ended the connection.
 */
int cloister_start(struct cloister *cloister, const char *method, const char *params,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/**
 * Queues a request to open @workspace: the absolute path of a directory, or the name of a managed
 * workspace. It becomes the workspace of later calls that name none. Returns like cloister_start().
 */
int cloister_start_workspace(struct cloister *cloister, const char *workspace,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/* A tool call. Fields that are not used must be zero. */
struct cloister_tool_call {
	const char *tool;
	const char *arguments;
	const char *tool_call; /* in place of both: a tool call as the model wrote it */
	const char *options;
	const char *workspace; /* opened before; NULL: the one opened last */
	int64_t timeout_ms;    /* a deadline that the service enforces; 0: the tool's default */
	/*
	 * Called with a command's output as it comes; NULL: the output comes only with the reply.
	 * Unless @options name an "encoding", the reply's output is then base64:
	 * cloister_get_bytes().
	 */
	cloister_output_handler *on_output;
	cloister_reply_handler *on_reply;
	void *userdata;
	void *reserved[4];
};

/** Queues a tool call. Returns like cloister_start(). */
int cloister_start_call(
	struct cloister *cloister, const struct cloister_tool_call *call, int64_t *ret_id);

/**
 * Asks the service to end call @id, which is then answered with the result so far. Returns -ENOENT
 * if @id is unknown or answered, otherwise like cloister_start().
 */
int cloister_cancel(struct cloister *cloister, int64_t id);

/**
 * Drops the output and answer of @id. The call itself goes on: to end it, cancel it first. Returns
 * -ENOENT like cloister_cancel().
 */
int cloister_forget(struct cloister *cloister, int64_t id);

/* Waiting */

/**
 * Waits for the answer of @id, which has no handler, and calls handlers of other requests
 * meanwhile. Returns 0 with the reply, for the caller to free; -ETIMEDOUT after @timeout_ms (-1: no
 * limit), after which it may be called again; -ENOENT; -EINVAL if @id has a handler; or an error of
 * cloister_dispatch().
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

/*
 * Event loops: watch the descriptor, level-triggered, for the events and call cloister_dispatch().
 */

/** Returns the connected socket, borrowed. */
int cloister_fd(const struct cloister *cloister);

/**
 * Returns the poll(2) events to watch for: POLLIN, POLLOUT, both or 0 (none). Call it again after
 * any other function.
 */
short cloister_events(const struct cloister *cloister);

/**
 * Sends, receives and calls handlers, without waiting and for a bounded amount of data. Returns 0,
 * or the error that has ended the connection, after all handlers have been told: -ECONNRESET: the
 * service closed it; -EBADMSG: a line that is not a JSON object; -EMSGSIZE: a line that is too long
 * or has too many values; -EPROTO: an unexpected or meaningless message; -ECANCELED: a handler has
 * closed the connection, which is freed; or an error of recv(2).
 */
int cloister_dispatch(struct cloister *cloister);

/**
 * While paused, cloister_dispatch() reads nothing and calls no handler, so that the service has to
 * wait. Call cloister_dispatch() after a pause ends.
 */
void cloister_pause(struct cloister *cloister, bool paused);

/** Returns the number of bytes that wait to be sent. */
size_t cloister_unsent(const struct cloister *cloister);

/** Sets the handler of notifications. NULL drops them. */
void cloister_on_notification(
	struct cloister *cloister, cloister_notification_handler *handler, void *userdata);

/*
 * Messages. A reply is a result or an error. Pointers (RFC 6901) refer to the result, the error
 * object or the notification's params: "/output/stdout", "/output/matches/0/line", "" for all of
 * it.
 */

void cloister_message_free(struct cloister_message *message);

/** Whether it is a result, and not the result of a tool that failed. */
bool cloister_succeeded(const struct cloister_message *message);

/** Returns why the request or the tool failed, or CLOISTER_ERROR_NONE. */
enum cloister_error cloister_error(const struct cloister_message *message);

/**
 * Returns the name of the error, such as "NOT_FOUND", or NULL if there is no error or it has no
 * name.
 */
const char *cloister_error_name(const struct cloister_message *message);

/**
 * Returns the service's sentence about the error, or NULL. It may quote text from hostile files or
 * commands.
 */
const char *cloister_error_message(const struct cloister_message *message);

/**
 * Returns the JSON-RPC error number if the request failed (enum cloister_json_error), otherwise 0.
 */
int cloister_json_error(const struct cloister_message *message);

/**
 * Returns a string, borrowed from @message; it may hold NULs, so its length is stored in @ret_len
 * unless that is NULL. Returns NULL if there is no string at @pointer.
 */
const char *cloister_get_string(
	const struct cloister_message *message, const char *pointer, size_t *ret_len);

/**
 * Decodes a string of base64 into memory for the caller to free(3). Returns 0, -ENOENT, -EINVAL if
 * it is something else, or -ENOMEM.
 */
int cloister_get_bytes(const struct cloister_message *message, const char *pointer, void **ret_data,
	size_t *ret_len);

/** Stores an integer. Returns 0, -ENOENT, or -EINVAL if it is something else. */
int cloister_get_int64(
	const struct cloister_message *message, const char *pointer, int64_t *ret_value);

/** Stores a boolean. Returns like cloister_get_int64(). */
int cloister_get_bool(const struct cloister_message *message, const char *pointer, bool *ret_value);

/**
 * Stores the number of elements or members of an array or object. Returns like
 * cloister_get_int64().
 */
int cloister_get_count(
	const struct cloister_message *message, const char *pointer, size_t *ret_count);

/**
 * Returns any value as JSON, in one line or, with @pretty, indented; borrowed until the next call
 * of this function. Returns NULL if there is none or memory is out.
 */
const char *cloister_get_json(
	const struct cloister_message *message, const char *pointer, bool pretty);

/*
 * Objects, for params, arguments and options. If a value cannot be added, cloister_object_text()
 * fails later, so one check at the end is enough.
 */

/** Returns NULL if memory is out. */
struct cloister_object *cloister_object_new(void);
void cloister_object_free(struct cloister_object *object);

/**
 * Returns the object's text, borrowed until the object is changed, or NULL if a value could not be
 * added or memory is out.
 */
const char *cloister_object_text(struct cloister_object *object);

/** Adds UTF-8 text, which may hold NULs. Returns 0, -EINVAL if it is not UTF-8, or -ENOMEM. */
int cloister_object_string(
	struct cloister_object *object, const char *name, const char *data, size_t len);

/** Adds bytes in base64. */
int cloister_object_bytes(
	struct cloister_object *object, const char *name, const void *data, size_t len);

int cloister_object_int64(struct cloister_object *object, const char *name, int64_t value);
int cloister_object_bool(struct cloister_object *object, const char *name, bool value);

/** Adds any JSON value. Returns -EINVAL if @json is not JSON. */
int cloister_object_json(struct cloister_object *object, const char *name, const char *json);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
