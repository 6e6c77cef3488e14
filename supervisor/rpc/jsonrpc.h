/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON-RPC 2.0 (jsonrpc.org/specification) over lines: one line to one request, and answers and
 * notifications to lines. Runs in cloisterd and reads what clients send, which is hostile. It knows
 * no method: what a request means and whether its sender may ask for it is decided elsewhere.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct evbuffer;
struct json_object;
struct json_text;

enum jsonrpc_code {
	JSONRPC_PARSE_ERROR = -32700,
	JSONRPC_INVALID_REQUEST = -32600,
	JSONRPC_METHOD_NOT_FOUND = -32601,
	JSONRPC_INVALID_PARAMS = -32602,
	JSONRPC_INTERNAL_ERROR = -32603,
	JSONRPC_SERVER_ERROR = -32000, /* data.code names it */
};

/** In place of an error's id: the answer has none, as MCP wants it where the request could not be
 * read. (JSON-RPC wants null there.) */
extern const char jsonrpc_no_id[];

struct jsonrpc_request {
	struct json_object *root;   /* owns method and params */
	struct text method;         /* may hold any character */
	struct json_object *params; /* an object; empty when the request had none */
	char *id_text; /* owned: the id as JSON text, to be repeated in the answer; NULL: none */
	bool notification; /* has no id and gets no answer, also when it fails */
	size_t memory;     /* that root takes */
};

/* Why a line is no request, and what to answer. */
struct jsonrpc_fault {
	enum jsonrpc_code code;
	char message[128];
	char *id_text;     /* owned; NULL: answer with the id null */
	bool notification; /* gets no answer */
};

/**
 * Reads the request in @line, which is without its newline. 0 with *ret_request to be freed;
 * -EBADMSG with *ret_fault to be freed, when it is none; -ENOBUFS, when it is none or it takes more
 * than @memory bytes, which is less than a message may take; or -ENOMEM.
 *
 * Stricter than the specification: no batches, params only as an object, an id only as a string or
 * an integer of at most 64 bits and LIMIT_REQUEST_ID_BYTES, no members of the envelope but the
 * specified; and no more than json_read() takes.
 */
int jsonrpc_parse(struct text line, size_t memory, struct jsonrpc_request *ret_request,
	struct jsonrpc_fault *ret_fault);

/** The id that the JSON text @text is, as a request has it in id_text, to be freed; NULL: it is
 * none. */
char *jsonrpc_read_id(struct text text);

/** Whether @id may be a request's: a string or an integer, within bounds. */
bool jsonrpc_id_is_acceptable(struct json_object *id);

/** The name of a member of @params that is not among @names, which end with NULL; or NULL. */
const char *jsonrpc_unknown_param(struct json_object *params, const char *const *names);

/** A string among @params, borrowed; data is NULL when it is absent. False when it is something
 * else. */
bool jsonrpc_string_param(struct json_object *params, const char *name, struct text *ret);

/** @id as the JSON text that a request with this id has in id_text. Borrowed from @id; NULL: out of
 * memory. */
const char *jsonrpc_id_text(struct json_object *id);

void jsonrpc_request_free(struct jsonrpc_request *request);
void jsonrpc_fault_free(struct jsonrpc_fault *fault);

/**
 * Begins the answer to the request with @id_text: the caller writes one value, the result, and then
 * calls jsonrpc_end(). @id_text is used during the call only.
 */
void jsonrpc_result_begin(struct json_text *json, const char *id_text);

/** Begins a notification: the caller writes one value, an object, as its params, then
 * jsonrpc_end(). */
void jsonrpc_notification_begin(struct json_text *json, const char *method);

/**
 * Ends what was begun, and the line, and flushes it. 0, or -ENOMEM: the evbuffer then ends in part
 * of a message, and the connection is of no use any more.
 */
int jsonrpc_end(struct json_text *json);

/**
 * Begins an error answer whose object "error" the caller may add the name "data" to, before
 * jsonrpc_error_end(). @id_text NULL: null.
 */
void jsonrpc_error_begin(
	struct json_text *json, const char *id_text, enum jsonrpc_code code, const char *message);

/** As jsonrpc_end(). */
int jsonrpc_error_end(struct json_text *json);

/** A whole error answer that says BUSY and when to try again. As jsonrpc_end(). */
int jsonrpc_busy(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, int64_t retry_after_ms);

/** A whole error answer. @data_code becomes data.code unless it is NULL. As jsonrpc_end(). */
int jsonrpc_error(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code);
