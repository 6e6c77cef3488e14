/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A request as its face sees it, from its head to the end of its answer. README says in which
 * order a face calls what. The client is hostile; texts of it are valid until on_end.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

struct gate;
struct gate_head;
struct gate_identity;
struct gate_key;
struct gate_peer;
struct gate_request;
struct gate_route;
struct json_object;

struct gate *gate_request_gate(const struct gate_request *request);
const char *gate_request_method(const struct gate_request *request);
/** The path as it came, without the query. */
const char *gate_request_path(const struct gate_request *request);
/** The target as it came: path and query. */
const char *gate_request_target(const struct gate_request *request);
/** Whether the client, or the proxy before the gate, speaks TLS. */
bool gate_request_is_https(const struct gate_request *request);
/** The Host, without its port, in lower case. */
const char *gate_request_host(const struct gate_request *request);
/** What the path has for {@name} of the route, decoded. NULL: the route has no such segment. */
const char *gate_request_segment(const struct gate_request *request, const char *name);
/** The first value of the parameter @name of the query, decoded. NULL: there is none. */
const char *gate_request_query(struct gate_request *request, const char *name);
/** The route that was found for it. */
const struct gate_route *gate_request_route(const struct gate_request *request);
/** The first header @name, in any case. NULL: there is none. */
const char *gate_request_header(const struct gate_request *request, const char *name);
/** The head, all of whose fields were checked. */
const struct gate_head *gate_request_head(const struct gate_request *request);
/** Whose key it has: never NULL with GATE_ACCESS_KEY; otherwise NULL if there is no valid one. */
const struct gate_identity *gate_request_identity(const struct gate_request *request);
/** Returns the key of a key or of a token; NULL as with gate_request_identity(). */
const struct gate_key *gate_request_key(const struct gate_request *request);
/** Returns the identity of @key, for faces that find keys elsewhere; NULL: the key is not valid. */
const struct gate_identity *gate_request_check_key(struct gate_request *request, struct text key);

/**
 * The request is by a token of @key, and ends when that key is revoked. Returns false if the key's
 * tenant holds too many connections; the request is then answered.
 */
bool gate_request_uses_key(struct gate_request *request, const struct gate_key *key);

/** The client's address. */
const struct gate_peer *gate_request_peer(const struct gate_request *request);

/** Something of the face's own. */
void gate_request_set_context(struct gate_request *request, void *context);
void *gate_request_context(const struct gate_request *request);

/**
 * Called once, when the request is over: answered, or lost. The face frees what it has of it and
 * never uses it again.
 */
void gate_request_on_end(
	struct gate_request *request, void (*on_end)(struct gate_request *request));
/** Whether the client is gone, or its key was revoked: nothing more is sent. */
bool gate_request_is_lost(const struct gate_request *request);
/** Ends the request's connection, also while its client does not read. on_end comes later. */
void gate_request_drop(struct gate_request *request);

/* The body */

/** Gathers the whole body and calls @done once. It is valid until @done returns. */
void gate_request_collect(
	struct gate_request *request, void (*done)(struct gate_request *request, struct text body));

struct gate_reader {
	/*
	 * Takes bytes of the body, and returns how many. If these are not all, the client waits
	 * until gate_request_more(), and the rest comes again.
	 */
	size_t (*data)(struct gate_request *request, struct text data);
	/* The body is complete. A body that stops in the middle ends the request, without this. */
	void (*end)(struct gate_request *request);
};

/** Gives the body to @reader, which is static, as it comes. */
void gate_request_stream(struct gate_request *request, const struct gate_reader *reader);
void gate_request_more(struct gate_request *request);

/* The answer, once */

#define GATE_UNKNOWN UINT64_MAX

/**
 * Adds a header to the answer, before it begins. Returns false, without it, if it is malformed, or
 * is more than LIMIT_GATE_ANSWER_FIELDS or what libmicrohttpd has room for.
 */
bool gate_answer_header(struct gate_request *request, const char *name, const char *value);
/** Takes all headers back. */
void gate_answer_clear(struct gate_request *request);
/** Answers with @len bytes of body to come, or GATE_UNKNOWN. */
void gate_answer_begin(struct gate_request *request, unsigned status, uint64_t len);
/** Queues a copy of @data. */
void gate_answer_write(struct gate_request *request, struct text data);
/** Whether so much is queued that the face should wait for on_room. */
bool gate_answer_full(const struct gate_request *request);
/** Called each time that a full queue has room again. */
void gate_answer_on_room(
	struct gate_request *request, void (*on_room)(struct gate_request *request));
void gate_answer_end(struct gate_request *request);
/** Ends the answer before it is complete, in a way that the client notices. */
void gate_answer_abort(struct gate_request *request);

void gate_answer_bytes(
	struct gate_request *request, unsigned status, const char *type, struct text body);
/** Takes @object. */
void gate_answer_json(struct gate_request *request, unsigned status, struct json_object *object);
/** Answers {"code":@status,"message":@message}. */
void gate_answer_error(struct gate_request *request, unsigned status, const char *message);
/** A token or signature was wrong: counts it for the client's address, and answers 401 or 429. */
void gate_request_denied(struct gate_request *request);

struct gate_socket;

/**
 * Answers 101 to a request with "Upgrade: @protocol" (others get 426), and gives the socket to
 * @take, with what has come of it already. The face closes it with gate_socket_close(). If the key
 * is revoked first, @lost is called, and the face does that at once.
 */
void gate_answer_upgrade(struct gate_request *request, const char *protocol,
	void (*take)(struct gate_socket *socket, struct text first, void *context),
	void (*lost)(struct gate_socket *socket, void *context), void *context);
/** The descriptor, non-blocking; it stays the gate's. */
int gate_socket_fd(const struct gate_socket *socket);
void gate_socket_close(struct gate_socket *socket);
