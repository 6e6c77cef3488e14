/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcloister: makes tool calls to a cloisterd. libcloister(3) has examples.
 *
 * The library has no threads, signal handlers or global state, and never prints or exits. Only one
 * thread at a time may use a connection and its messages; different connections are independent.
 * Functions that return int return 0 or a negative errno(3) value unless their comment says
 * otherwise; -ENOMEM is not mentioned each time. A ret_ argument is written only on success. JSON
 * is passed in both directions as UTF-8 text.
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
	/* another code; cloister_error_name() returns its name, if it has one */
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
	CLOISTER_ERROR_EXECUTION_ERROR,
	CLOISTER_ERROR_NO_MATCH,
	CLOISTER_ERROR_AMBIGUOUS_MATCH,
	CLOISTER_ERROR_EDITS_OVERLAP,
	CLOISTER_ERROR_STALE_FILE,
	CLOISTER_ERROR_KEY_CONFLICT,
	CLOISTER_ERROR_OUTCOME_UNKNOWN,
	CLOISTER_ERROR_SESSION_NOT_FOUND,
	CLOISTER_ERROR_MOVED,
	CLOISTER_ERROR_LEASE_ENDED
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

enum cloister_stream { CLOISTER_STDOUT = 1, CLOISTER_STDERR = 2, CLOISTER_CONTENT = 3 };

/*
 * Only cloister_dispatch() and the functions that wait call handlers, in the thread of the caller.
 * A handler may start, cancel and forget requests, and pause and close the connection. Inside a
 * handler, functions that wait or dispatch return -EDEADLK. The library owns the messages and data
 * that it passes to a handler; they are valid until the handler returns. @userdata is the pointer
 * that was given with the handler.
 */

/**
 * Receives the answer to request @id: @reply, with @error 0. If the connection ends before the
 * answer comes, @reply is NULL and @error is the negative errno value that ended the connection. It
 * is called once for each request, unless the request is forgotten or the connection is closed
 * before the answer comes.
 */
typedef void cloister_reply_handler(struct cloister *cloister, int64_t id, int error,
	const struct cloister_message *reply, void *userdata);

/**
 * Receives output of call @id while its command runs: @len bytes at @data, as the command wrote
 * them to @stream.
 */
typedef void cloister_output_handler(struct cloister *cloister, int64_t id,
	enum cloister_stream stream, const void *data, size_t len, void *userdata);

/** Receives every notification except the output of streamed calls. */
typedef void cloister_notification_handler(struct cloister *cloister, const char *method,
	const struct cloister_message *params, void *userdata);

/* Connections */

/**
 * Connects to the service that listens at @path. If @path is NULL, it tries $CLOISTER_SOCKET,
 * $XDG_RUNTIME_DIR/cloister/agent.sock, /run/user/UID/cloister/agent.sock,
 * /tmp/cloister-UID/agent.sock and /run/cloister/agent.sock in this order. It trusts any server at
 * @path and $CLOISTER_SOCKET. At the other paths the server must run as root, as the caller or as
 * the owner of /run/cloister. It waits at most 10 seconds at each path for the service to accept
 * the connection.
 *
 * The caller owns *@ret_cloister and passes it to cloister_close(). With @path, returns an error of
 * connect(2); -EAGAIN means that the 10 seconds are over. Without @path, returns -ENOENT if there
 * is no service, or -EPERM if the only servers found run as other users.
 */
int cloister_open(const char *path, struct cloister **ret_cloister);

/**
 * Uses the connected stream socket @fd, whoever its peer is. On success the connection owns @fd. It
 * neither changes the descriptor's flags, such as O_NONBLOCK, nor depends on them. Returns
 * -EPROTOTYPE if @fd is another kind of socket, or an error of getsockopt(2).
 */
int cloister_open_fd(int fd, struct cloister **ret_cloister);

/**
 * Lets cloister_call() outlive the connection. If the connection is lost during a call, and the
 * service keeps keys, cloister_call() connects again for at most @patience_ms milliseconds, opens
 * the workspace again that cloister_workspace() opened last, and repeats the call with the key that
 * it had from the start: the service runs it at most once. It does so up to three times. 0, as at
 * first: it does not. It does not change other functions, nor calls that only read, that name a
 * workspace, or that have one of the options key, forget_key, keep_output and stdin_stream. The
 * descriptor keeps its number, but an epoll(7) set forgets it. If the program ends, the service
 * ends a call 10 seconds after that time. Returns -EINVAL if the connection was made by
 * cloister_open_fd(), or if @patience_ms is negative or more than an hour.
 */
int cloister_set_reconnect(struct cloister *cloister, int64_t patience_ms);

/**
 * Closes and frees the connection; the service then ends its calls. Calls no handler. Inside a
 * handler it takes effect when the handler returns. NULL is allowed.
 */
void cloister_close(struct cloister *cloister);

/**
 * Chooses the host of a workspace among the @n_nodes names in @nodes, in any order, and stores its
 * index. The same names give the same host. If a host is removed, only its workspaces move; if one
 * is added, only the workspaces that it gets move. Name the hosts that `cloisterctl health` calls
 * healthy. It neither connects nor waits. @tenant and @workspace are any names; with hosts that all
 * have the same directories, @workspace may be a path. Returns -EINVAL if there is no host, or if
 * an argument is NULL.
 */
int cloister_place(const char *tenant, const char *workspace, const char *const *nodes,
	size_t n_nodes, size_t *ret_node);

/*
 * Requests. @params, arguments and options are the text of a JSON object, and NULL stands for an
 * empty object; other text gives -EINVAL. The library copies all texts. If @on_reply is NULL, it
 * keeps the answer for cloister_wait().
 */

/**
 * Queues a request of @method and stores its id, unless @ret_id is NULL. Does not wait:
 * cloister_dispatch() or a function that waits sends it. Returns -ENOBUFS if more than 64 MiB wait
 * to be sent, -EMSGSIZE if the request is longer than 32 MiB, -EINVAL, or the error that has ended
 * the connection.
 */
int cloister_start(struct cloister *cloister, const char *method, const char *params,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/**
 * Queues a request to open @workspace: the absolute path of a directory, or the name of a managed
 * workspace. Later calls that name no workspace run in it. Returns like cloister_start().
 */
int cloister_start_workspace(struct cloister *cloister, const char *workspace,
	cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/*
 * A tool call: either tool and its arguments, or tool_call. Fields that are not used must be zero.
 * The library keeps no pointer to the structure or its texts.
 */
struct cloister_tool_call {
	const char *tool;
	const char *arguments;
	const char *tool_call; /* the call's JSON as the model wrote it */
	const char *options;
	const char *workspace; /* one that is open; NULL: the one opened last */
	int64_t timeout_ms;    /* deadline, enforced by the service; 0: the tool's default */
	/*
	 * Receives a command's output while it runs; NULL: the output comes only with the reply.
	 * With a handler, the output in the reply is base64 (cloister_get_bytes()), unless the
	 * options have an "encoding". With the option "stream_bytes", which needs a
	 * handler, it is sent as it is.
	 */
	cloister_output_handler *on_output;
	cloister_reply_handler *on_reply;
	void *userdata;
	void *reserved[4];
};

/** Queues a tool call. Returns like cloister_start(), and -EINVAL for invalid fields. */
int cloister_start_call(
	struct cloister *cloister, const struct cloister_tool_call *call, int64_t *ret_id);

/**
 * Queues @len bytes, at most 1 MiB, as input of the call @id, which has the option "stdin_stream";
 * with @eof the input ends after them. The answer comes when the command has read them, and says
 * "taken" and "closed". Bytes are sent as they are to a service that takes them so, otherwise as
 * base64. Returns like cloister_start(), and -EMSGSIZE for too many bytes.
 */
int cloister_start_input(struct cloister *cloister, int64_t id, const void *data, size_t len,
	bool eof, cloister_reply_handler *on_reply, void *userdata, int64_t *ret_id);

/**
 * Queues a request of file.read with @params. @on_output gets the content, as CLOISTER_CONTENT, and
 * the reply comes when all of it was given. Returns like cloister_start().
 */
int cloister_start_read(struct cloister *cloister, const char *params,
	cloister_output_handler *on_output, cloister_reply_handler *on_reply, void *userdata,
	int64_t *ret_id);

/**
 * Asks the service to end call @id. The call is then answered with the result so far. Returns
 * -ENOENT if @id is unknown, forgotten or already answered; otherwise like cloister_start().
 */
int cloister_cancel(struct cloister *cloister, int64_t id);

/**
 * Drops further output of request @id and its answer, also an answer that is kept for
 * cloister_wait(). The call itself goes on; to end it, cancel it first. Returns -ENOENT if @id is
 * unknown or forgotten.
 */
int cloister_forget(struct cloister *cloister, int64_t id);

/* Waiting */

/**
 * Waits for the answer to request @id, which was started without a handler. Meanwhile it calls the
 * handlers of other requests. The caller frees the reply with cloister_message_free(). Returns
 * -ETIMEDOUT after @timeout_ms milliseconds (a negative value: no limit); the caller may then wait
 * again. Returns -ENOENT if @id is unknown, forgotten or already waited for, -EINVAL if it has a
 * handler, or an error of cloister_dispatch().
 */
int cloister_wait(
	struct cloister *cloister, int64_t id, int timeout_ms, struct cloister_message **ret_reply);

/** Does cloister_start() and cloister_wait() without a limit of time, and returns like them. */
int cloister_request(struct cloister *cloister, const char *method, const char *params,
	struct cloister_message **ret_reply);

/** Like cloister_request(), with cloister_start_workspace(). */
int cloister_workspace(
	struct cloister *cloister, const char *workspace, struct cloister_message **ret_reply);

/** Like cloister_request(), with cloister_start_call(). -EINVAL if @call has on_reply. */
int cloister_call(struct cloister *cloister, const struct cloister_tool_call *call,
	struct cloister_message **ret_reply);

/*
 * Event loops: watch cloister_fd(), level-triggered, for cloister_events(), and call
 * cloister_dispatch() at each event.
 */

/** Returns the connected socket. It belongs to the connection: do not close it. */
int cloister_fd(const struct cloister *cloister);

/**
 * Returns the poll(2) events to watch for: POLLIN, POLLOUT, both or 0 (none). Any other function
 * may change them, so call it again after each.
 */
short cloister_events(const struct cloister *cloister);

/**
 * Sends, receives and calls handlers. It never waits and reads about 1 MiB at most. Returns 0, or
 * the error that has ended the connection:
 *   -ECONNRESET  the service closed the connection
 *   -EBADMSG     the service sent a line that is not a JSON object
 *   -EMSGSIZE    the service sent a line that is too long or has too many values
 *   -EPROTO      the service sent an unexpected or meaningless message
 *   -ECANCELED   a handler closed the connection, which is freed: do not use it again
 * or an error of send(2) or recv(2). Except after -ECANCELED, the function calls every reply
 * handler with the error before it returns.
 */
int cloister_dispatch(struct cloister *cloister);

/**
 * Begins (@paused) or ends a pause. During a pause cloister_dispatch() reads nothing and calls no
 * handler, so the service has to wait. After the end of a pause, call cloister_dispatch() once:
 * messages may be buffered already. Functions that wait ignore the pause.
 */
void cloister_pause(struct cloister *cloister, bool paused);

/** Returns the number of bytes that wait to be sent. */
size_t cloister_unsent(const struct cloister *cloister);

/** Sets the handler of notifications. With NULL, as at first, they are dropped. */
void cloister_on_notification(
	struct cloister *cloister, cloister_notification_handler *handler, void *userdata);

/*
 * Messages. A reply is a result or an error. @pointer is a JSON pointer (RFC 6901) into the result,
 * the error object or the notification's params, such as "/output/stdout" or
 * "/output/matches/0/line"; "" is the whole value.
 */

/** Frees a message that the caller owns, with everything borrowed from it. NULL is allowed. */
void cloister_message_free(struct cloister_message *message);

/** Returns whether the request succeeded and, if it was a tool call, the tool did too. */
bool cloister_succeeded(const struct cloister_message *message);

/** Returns why the request or the tool failed, or CLOISTER_ERROR_NONE. */
enum cloister_error cloister_error(const struct cloister_message *message);

/**
 * Returns the name of the error, such as "NOT_FOUND", borrowed from @message, or NULL if there is
 * no error or the error has no name.
 */
const char *cloister_error_name(const struct cloister_message *message);

/**
 * Returns the service's sentence about the error, borrowed from @message, or NULL if there is no
 * error. The sentence may quote text from hostile files or commands.
 */
const char *cloister_error_message(const struct cloister_message *message);

/**
 * Returns the name of the host where the work goes on, if the request was refused with MOVED: as an
 * administrator gave it, borrowed from @message. Nothing was begun, so the program may connect
 * there, open the workspace again and repeat the request. Unless @ret_exists is NULL, it says
 * whether the workspace exists at the host that refused, with its files: then open it at the other
 * with "create":false, since it would be empty if it had not been moved. Returns NULL for all other
 * messages.
 */
const char *cloister_moved_to(const struct cloister_message *message, bool *ret_exists);

/**
 * Returns the JSON-RPC error number if the request failed (enum cloister_json_error), otherwise 0.
 */
int cloister_json_error(const struct cloister_message *message);

/**
 * Returns the string at @pointer, borrowed from @message, or NULL if there is none. The string may
 * contain NULs; unless @ret_len is NULL, its length in bytes is stored there.
 */
const char *cloister_get_string(
	const struct cloister_message *message, const char *pointer, size_t *ret_len);

/**
 * Decodes the base64 string at @pointer into memory that the caller frees with free(3). Returns
 * -ENOENT if there is no value at @pointer, or -EINVAL if the value is not base64.
 */
int cloister_get_bytes(const struct cloister_message *message, const char *pointer, void **ret_data,
	size_t *ret_len);

/**
 * Stores the integer at @pointer. Returns -ENOENT if there is no value there, or -EINVAL if the
 * value has another type.
 */
int cloister_get_int64(
	const struct cloister_message *message, const char *pointer, int64_t *ret_value);

/** Stores the boolean at @pointer. Returns like cloister_get_int64(). */
int cloister_get_bool(const struct cloister_message *message, const char *pointer, bool *ret_value);

/**
 * Stores the number of elements of the array, or members of the object, at @pointer. Returns like
 * cloister_get_int64().
 */
int cloister_get_count(
	const struct cloister_message *message, const char *pointer, size_t *ret_count);

/**
 * Returns the value at @pointer as JSON, in one line or, with @pretty, indented. The text belongs
 * to
 * @message and is valid until the next call of this function for it. Returns NULL if there is no
 * such value or no memory.
 */
const char *cloister_get_json(
	const struct cloister_message *message, const char *pointer, bool pretty);

/*
 * JSON objects, for params, arguments and options. If a value cannot be added,
 * cloister_object_text() returns NULL later, so one check at the end is enough. A value replaces an
 * earlier one of the same name.
 */

/** Returns an empty object, which the caller frees, or NULL if there is no memory. */
struct cloister_object *cloister_object_new(void);

/** Frees the object and its text. NULL is allowed. */
void cloister_object_free(struct cloister_object *object);

/**
 * Returns the object as JSON text, or NULL if a value could not be added or there is no memory. The
 * text belongs to @object and is valid until the object is changed or freed.
 */
const char *cloister_object_text(struct cloister_object *object);

/** Adds @len bytes of UTF-8 text, which may contain NULs. Returns -EINVAL if it is not UTF-8. */
int cloister_object_string(
	struct cloister_object *object, const char *name, const char *data, size_t len);

/** Adds @len bytes as a base64 string. Returns -EINVAL if they are more than 32 MiB. */
int cloister_object_bytes(
	struct cloister_object *object, const char *name, const void *data, size_t len);

/** Adds an integer. */
int cloister_object_int64(struct cloister_object *object, const char *name, int64_t value);

/** Adds a boolean. */
int cloister_object_bool(struct cloister_object *object, const char *name, bool value);

/**
 * Adds the JSON value that @json is the text of. Returns -EINVAL if @json is not JSON, or -EMSGSIZE
 * if it has too many values.
 */
int cloister_object_json(struct cloister_object *object, const char *name, const char *json);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
