/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request of a client of E2B on its way: it asks cloisterd one thing after the other over a link,
 * each answer is given to the next function of its handler, and the last one answers the client. If
 * cloisterd refuses, or the link is lost, the op answers the client itself. A client that goes away
 * takes the op with it: no further function is called.
 */

#include "common/byte_queue.h"
#include "common/text.h"
#include "gate/tenant_share.h"
#include "libcloister/cloister.h"

#include <stdbool.h>
#include <stdint.h>

struct agent_link;
struct event;
struct gate_identity;
struct gate_request;
struct json_object;
struct op;
struct sandbox;

/** Goes on with an answer of cloisterd that is not a refusal. */
typedef void op_next(struct op *op, const struct cloister_message *reply);

/* How answers look. */
enum op_form {
	OP_REST,       /* a JSON value; errors as {"code","message"} with a status */
	OP_RPC,        /* a unary call of Connect */
	OP_RPC_STREAM, /* a stream of Connect: errors are its last message */
};

struct op {
	struct gate_request *request; /* NULL: the client is gone */
	struct json_object *body;     /* held; what the client asks; NULL: nothing */
	struct sandbox *sandbox;      /* held; NULL: none yet */
	struct agent_link *link;      /* of the sandbox, or the op's own */
	bool link_is_own;
	enum op_form form;
	bool begun;       /* an OP_RPC_STREAM has sent its head */
	unsigned pending; /* requests to cloisterd without an answer */
	op_next *next;
	const char *method;         /* what is asked, to be asked again */
	struct json_object *params; /* held */
	struct event *successor;    /* waits for a cloisterd that takes over; NULL: it never did */
	char *refusal;              /* what the former one answered */
	/* Answers the refusal and returns true, or returns false: the op answers it as usual. */
	bool (*on_refusal)(struct op *op, const struct cloister_message *reply);
	op_next *on_ran;                 /* what outside_run() calls */
	void (*on_ready)(struct op *op); /* what transfer_open() calls */
	struct byte_queue collected;
	struct gate_hold hold; /* the body, or what it was read into, and a long answer */
	bool collects, body_over;
	struct json_object *row;         /* borrowed: what process_find() found */
	void (*free_state)(void *state); /* frees @state when the op ends */
	void *state;                     /* the handler's */
};

/** Makes the op of @request, which ends with it. NULL: the request has been answered. */
struct op *op_new(struct gate_request *request, enum op_form form);

/**
 * Makes the handler's state, zeroed, of @size bytes; @free_state frees it when the op ends. NULL:
 * the op has been answered.
 */
void *op_state_new(struct op *op, size_t size, void (*free_state)(void *state));

/** Opens a link of @identity for the op. Returns false if the request has been answered. */
bool op_open_link(struct op *op, const struct gate_identity *identity);

/** Begins the answer of an OP_RPC_STREAM, with a queue that calls @on_room. */
void op_begin_stream(struct op *op, void (*on_room)(struct gate_request *request));
/** Sends a message of a stream. Takes @object. */
void op_send(struct op *op, struct json_object *object);
/** Ends a stream without an error. */
void op_end_stream(struct op *op);
/**
 * Keeps the op until op_leave(), even if its request ends. Put both around code that waits, or that
 * uses the op after it may have been answered.
 */
void op_stay(struct op *op);
void op_leave(struct op *op);
/** Returns the op of @request. */
struct op *op_of(struct gate_request *request);

/** The body waits until op_collect(), which need not be called at once. */
void op_hold_body(struct op *op);
/** Collects the body, an object of JSON or empty. Goes on with the route's find, or else its act.
 */
void op_collect(struct op *op);
/** Goes on with the route's act. */
void op_act(struct op *op);

/** Frees the body, of which @kept bytes go on being used. */
void op_drop_body(struct op *op, size_t kept);

/**
 * Asks cloisterd. Takes @params, which may be NULL; @next goes on with the answer. Only one request
 * is asked at a time.
 */
void op_ask(struct op *op, const char *method, struct json_object *params, op_next *next);

/** Answers with @status and @object, which is taken; NULL: no body. */
void op_answer(struct op *op, unsigned status, struct json_object *object);
/** Answers with @status and the JSON @text, which is copied. */
void op_answer_text(struct op *op, unsigned status, struct text text);

/** Answers an error. @code is Connect's; @status is that of a REST answer. */
void op_fail(struct op *op, unsigned status, const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/** Answers what cloisterd refused. */
void op_refuse(struct op *op, const struct cloister_message *reply);

/**
 * Returns the member at @path of cloisterd's answer, for the caller to put. NULL: there is none,
 * and the client has been told.
 */
struct json_object *op_read(struct op *op, const struct cloister_message *reply, const char *path);

/** Answers that there is no memory. */
void op_no_memory(struct op *op);

/* Members of JSON objects; the object may be NULL. */

/** Returns the string @name, or an empty text with NULL. */
struct text json_text_of(struct json_object *object, const char *name);
/** Returns the number @name, or @otherwise. */
int64_t json_number_of(struct json_object *object, const char *name, int64_t otherwise);
/** Returns the boolean @name, or @otherwise. */
bool json_bool_of(struct json_object *object, const char *name, bool otherwise);
/** Returns the member @name, borrowed, or NULL. */
struct json_object *json_member_of(struct json_object *object, const char *name);
/** Parses what cloisterd sent or keeps. Returns NULL if it is not JSON; the caller puts the value.
 */
struct json_object *json_of(struct text text);
/** Adds a string. */
void json_put_text(struct json_object *object, const char *name, struct text text);
