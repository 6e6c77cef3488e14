/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the library's files share. connection.c moves bytes, incoming.c understands lines,
 * request.c has the requests in flight, message.c reads what came. */

#include "libcloister/buffer.h"
#include "libcloister/cloister.h"

struct json_object;

struct cloister_message {
	struct json_object *root;  /* owned */
	struct json_object *value; /* in it: the result, the error or the params */
	bool is_error;
};

struct request {
	struct request *next;
	int64_t id;
	bool dropped; /* its answer is not wanted, or has been given: what comes is ignored */
	bool base64;  /* its output comes so */
	cloister_output_handler *on_output;
	cloister_reply_handler *on_reply; /* NULL: reply is kept for cloister_wait() */
	void *userdata;
	struct cloister_message *reply;
};

struct cloister {
	int fd;
	int error; /* what has ended it, or 0 */
	bool dispatching, closing, paused, waiting;
	bool send_failed; /* the peer takes no more; it may still have something to say */
	int64_t last_id;
	size_t scanned; /* bytes of in, from its start, known to hold no newline */
	struct buffer in, out;
	struct request *requests;         /* oldest first */
	struct cloister_message *refusal; /* of no request: the next one gets it */
	int64_t refused_id; /* requests up to it may be answered twice: by a refusal, and truly */
	cloister_notification_handler *on_notification;
	void *notification_userdata;
};

/** Understands one line and calls its handler. 0, -EBADMSG, -EMSGSIZE, -EPROTO or -ENOMEM. */
int incoming_line(struct cloister *cloister, const char *line, size_t len);

/** Gives a refusal that has come to the requests that are in flight, if there are any. */
int incoming_refusal(struct cloister *cloister);

/** Tells the handlers of all requests that the connection ended with @error. */
void requests_fail(struct cloister *cloister, int error);

/** The request with @id, or NULL. */
struct request *request_find(const struct cloister *cloister, int64_t id);

/** Unlinks and frees it. */
void request_remove(struct cloister *cloister, struct request *request);

/** Hands @reply, which it takes, to the handler of @request, which it removes, or keeps it for
 * cloister_wait(). */
void request_answer(
	struct cloister *cloister, struct request *request, struct cloister_message *reply);

/** A message about @value, which is in @root, which it takes, also on failure. NULL: out of memory.
 */
struct cloister_message *message_new(
	struct json_object *root, struct json_object *value, bool is_error);

/** Reads a JSON text: json/json_read.h. 0; -EINVAL; -EMSGSIZE, where it is too much; or -ENOMEM. */
int object_read(const char *data, size_t len, struct json_object **ret_value);

/** Puts @value, which it takes, as @name into @object. 0 or -ENOMEM. */
int json_add(struct json_object *object, const char *name, struct json_object *value);
