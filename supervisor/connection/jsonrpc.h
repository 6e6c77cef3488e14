/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON-RPC 2.0 (jsonrpc.org/specification) over lines: parses a line into a request, and writes
 * answers and notifications as lines. Runs in cloisterd on input of hostile clients. It knows no
 * methods and authorizes nothing.
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
	JSONRPC_SERVER_ERROR = -32000, /* data.code has its name */
};

/**
 * Used in place of an id: the answer gets no id, as MCP requires if the request could not be read.
 * (JSON-RPC requires null there.)
 */
extern const char jsonrpc_no_id[];

struct jsonrpc_request {
	struct json_object *root;   /* owns method and params */
	struct text method;         /* may hold any character */
	struct json_object *params; /* an object; empty if the request has none */
	char *id_text; /* owned: the id as JSON text, to be repeated in the answer; NULL: none */
	bool notification; /* has no id and gets no answer, not even an error */
	size_t memory;     /* memory that root takes */
};

/* Why a line is not a request, and how to answer it. */
struct jsonrpc_fault {
	enum jsonrpc_code code;
	char message[128];
	char *id_text;     /* owned; NULL: answer with the id null */
	bool notification; /* gets no answer */
};

/**
 * Parses the request in @line, which has no newline. Returns 0 with *ret_request, to be freed;
 * -EBADMSG with *ret_fault, to be freed, if it is not a request; -ENOBUFS if it, valid or not,
 * takes more than @memory bytes; or -ENOMEM.
 *
 * Stricter than the specification: no batches, params only as an object, an id only as a string or
 * an integer of at most 64 bits and LIMIT_REQUEST_ID_BYTES, only the specified members in the
 * envelope, and only JSON that json_read() accepts.
 */
int jsonrpc_parse(struct text line, size_t memory, struct jsonrpc_request *ret_request,
	struct jsonrpc_fault *ret_fault);

/**
 * Parses the JSON text @text as an id. Returns it as in id_text, to be freed; NULL if it is not a
 * valid id.
 */
char *jsonrpc_read_id(struct text text);

/** Whether @id may be the id of a request: a string or an integer, within bounds. */
bool jsonrpc_id_is_acceptable(struct json_object *id);

/**
 * Returns the name of a member of @params that is not among @names, which end with NULL; or NULL.
 */
const char *jsonrpc_unknown_param(struct json_object *params, const char *const *names);

/**
 * Stores a string member of @params, borrowed; data is NULL if it is absent. Returns false if it
 * has another type.
 */
bool jsonrpc_string_param(struct json_object *params, const char *name, struct text *ret);

/** Returns @id as JSON text, as in id_text, borrowed from @id; NULL if memory is out. */
const char *jsonrpc_id_text(struct json_object *id);

void jsonrpc_request_free(struct jsonrpc_request *request);
void jsonrpc_fault_free(struct jsonrpc_fault *fault);

/**
 * Begins the answer to the request with @id_text. The caller writes one value, the result, and
 * calls jsonrpc_end(). @id_text is used only during this call.
 */
void jsonrpc_result_begin(struct json_text *json, const char *id_text);

/**
 * Begins a notification and its params, an object. The caller writes its members, ends it, and
 * calls jsonrpc_end().
 */
void jsonrpc_notification_begin(struct json_text *json, const char *method);

/**
 * Ends the message and its line, and flushes it. Returns 0, or -ENOMEM: the evbuffer then ends with
 * part of a message, and the connection must be closed.
 */
int jsonrpc_end(struct json_text *json);

/** The same, and puts the bytes of @payload behind the line. */
int jsonrpc_end_with(struct json_text *json, struct text payload);

/**
 * Begins an error answer. The caller may add the member "data" to its object "error" before
 * jsonrpc_error_end(). @id_text NULL becomes null.
 */
void jsonrpc_error_begin(
	struct json_text *json, const char *id_text, enum jsonrpc_code code, const char *message);

/** Returns like jsonrpc_end(). */
int jsonrpc_error_end(struct json_text *json);

/** Writes a complete error answer BUSY with the time to try again. Returns like jsonrpc_end(). */
int jsonrpc_busy(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, int64_t retry_after_ms);

/** Writes a complete error answer MOVED: to @node, and whether the workspace @exists here. */
int jsonrpc_moved(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *node, bool exists);

/**
 * Writes a complete error answer. @data_code becomes data.code unless it is NULL. Returns like
 * jsonrpc_end().
 */
int jsonrpc_error(struct evbuffer *out, const char *id_text, enum jsonrpc_code code,
	const char *message, const char *data_code);
