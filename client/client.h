/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection to a cloisterd: JSON-RPC 2.0, one message a line, over a Unix stream socket. Both
 * directions move while either waits, so neither side's full buffer can stop the other.
 */

#include <stdbool.h>
#include <stdint.h>

struct client;
struct json_object;

/** Connects to the Unix socket @path. 0 with *ret_fd, or -errno. */
int client_connect(const char *path, int *ret_fd);

/** A client on the connected socket @fd, which it takes on success. 0 or -ENOMEM. */
int client_new(int fd, struct client **ret_client);

/** Closes the connection. NULL is allowed. */
void client_free(struct client *client);

static inline void client_freep(struct client **client)
{
	client_free(*client);
}
#define _cleanup_client_ _cleanup_(client_freep)

/** The connected socket, borrowed, for bytes that pass it as they are; what has been received
 * already is none of them. */
int client_socket(const struct client *client);

/** Queues a request; @params is taken, also on failure. 0 with the request's id, or -errno. */
int client_send(
	struct client *client, const char *method, struct json_object *params, int64_t *ret_id);

/**
 * Waits until a message has come or @other_fd (-1: none) is readable. Returns 1 with the message,
 * which the caller puts; 0 when @other_fd is readable, which goes first; -ETIMEDOUT after
 * @timeout_ms (-1: never) in which nothing moved; -ECONNRESET when the peer has closed; -EBADMSG or
 * -EMSGSIZE for a line that is no JSON object or too long.
 */
int client_receive(
	struct client *client, int other_fd, int timeout_ms, struct json_object **ret_message);

/**
 * Sends a request and waits for its reply, skipping every other message. 0 with the whole reply,
 * which the caller puts, or a negative error of client_receive().
 */
int client_request(struct client *client, const char *method, struct json_object *params,
	struct json_object **ret_reply);

/** Whether @message is the reply to request @id, or an error that could not be tied to a request.
 */
bool reply_is_for(struct json_object *message, int64_t id);

/** The result in @reply, borrowed, or NULL when it is an error. */
struct json_object *reply_result(struct json_object *reply);

/** Says on stderr why @reply is an error; the exit status for it: STATUS_USAGE or
 * STATUS_NO_SERVICE. */
int reply_complain(struct json_object *reply);

/** Says on stderr why client_receive() or client_request() failed with @error. */
void client_complain(int error);
