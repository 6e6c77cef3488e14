/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Definitions shared by the library's files. connection.c moves bytes, incoming.c interprets lines,
 * request.c keeps the requests in flight, message.c reads replies.
 */

#include "common/text.h"
#include "libcloister/buffer.h"
#include "libcloister/cloister.h"

struct json_object;

struct cloister_message {
	struct json_object *root;  /* owned */
	struct json_object *value; /* the result, the error or the params inside root */
	bool is_error;
};

struct request {
	struct request *next;
	int64_t id;
	bool dropped; /* forgotten or answered: further messages are ignored */
	bool base64;  /* its output comes in base64 */
	bool bytes;   /* its output comes as it is, behind its notification */
	cloister_output_handler *on_output;
	cloister_reply_handler *on_reply; /* NULL: the reply is kept for cloister_wait() */
	void *userdata;
	struct cloister_message *reply;
	struct text input; /* to send behind the request's line; borrowed until it is queued */
};

/* Whether the service takes bytes behind the line of a tool.input. */
enum payloads {
	PAYLOADS_UNKNOWN,
	PAYLOADS_ASKED,
	PAYLOADS_TAKEN,
	PAYLOADS_REFUSED,
};

/* The output that follows its notification. */
struct payload {
	int64_t id; /* of the request */
	enum cloister_stream stream;
	size_t left;
};

struct cloister {
	int fd;
	int error; /* the error that has ended the connection, or 0 */
	bool dispatching, closing, paused, waiting;
	bool send_failed; /* the service accepts nothing more; its messages may still be read */
	int64_t last_id;
	size_t scanned; /* bytes of in that are known to hold no newline */
	struct buffer in, out;
	struct payload payload;
	enum payloads payloads;
	struct request *requests;         /* oldest first */
	struct cloister_message *refusal; /* an error without an id, for the next request to get */
	/* requests up to this id may get two answers: the refusal and a real one */
	int64_t refused_id;
	cloister_notification_handler *on_notification;
	void *notification_userdata;
	/* reconnect.c */
	char *path;            /* where the service was found; NULL: the program gave the socket */
	bool found;            /* path is a default one, whose server is not trusted blindly */
	int64_t patience_ms;   /* 0: no call is repeated */
	char *workspace;       /* the one to open again; NULL: there is none */
	bool keeps_keys;       /* calls in it may have a key */
	bool retiring;         /* the service is replaced, and serves on new connections */
	char needless_key[33]; /* of the last call, whose answer has come; empty: none */
};

/**
 * Connects to @path; with @found only to a server that is trusted. Returns 0, -EPERM if it is not,
 * or an error of connect(2).
 */
int connection_open(const char *path, bool found, struct cloister **ret_cloister);

/** Returns the time of a clock that is never set, in milliseconds. */
int64_t connection_now_ms(void);

/** Drops the requests that were sent on a connection that has ended; their waits fail. */
void requests_lose(struct cloister *cloister);

/**
 * Interprets one line and calls its handler. Returns 0, -EBADMSG, -EMSGSIZE, -EPROTO or -ENOMEM.
 */
int incoming_line(struct cloister *cloister, const char *line, size_t len);

/** Hands on the next @len bytes of the payload, which has as many left. */
void incoming_payload(struct cloister *cloister, const char *data, size_t len);

/** Answers the requests in flight, if there are any, with a refusal that has come. */
int incoming_refusal(struct cloister *cloister);

/** Tells the handlers of all requests that the connection has ended with @error. */
void requests_fail(struct cloister *cloister, int error);

/** Returns the request with @id, or NULL. */
struct request *request_find(const struct cloister *cloister, int64_t id);

/** Queues a request with @params, borrowed; @how says how it is answered. Returns like
 * cloister_start(). */
int request_start(struct cloister *cloister, const char *method, struct json_object *params,
	const struct request *how, int64_t *ret_id);

/** Unlinks and frees @request. */
void request_remove(struct cloister *cloister, struct request *request);

/** Takes @reply. Removes @request and calls its handler, or keeps the reply for cloister_wait(). */
void request_answer(
	struct cloister *cloister, struct request *request, struct cloister_message *reply);

/**
 * Makes a message about @value inside @root. Takes @root, also on failure. Returns NULL if memory
 * is out.
 */
struct cloister_message *message_new(
	struct json_object *root, struct json_object *value, bool is_error);

/**
 * Reads a JSON text by json/json_read.h. Returns 0, -EINVAL, -EMSGSIZE if it is too large, or
 * -ENOMEM.
 */
int object_read(const char *data, size_t len, struct json_object **ret_value);

/** Adds @len bytes in base64 as @name to @object. Returns 0 or -ENOMEM. */
int json_add_base64(struct json_object *object, const char *name, const void *data, size_t len);

/** Adds @value, which it takes, as @name to @object. Returns 0 or -ENOMEM. */
int json_add(struct json_object *object, const char *name, struct json_object *value);
