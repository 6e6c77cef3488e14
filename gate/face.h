/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A face: one API that the gate offers, as a table of methods and paths. README has an example. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate_request;
struct op;

/* The path of the gate's OAuth metadata (RFC 9728), also with "/mcp" behind it. */
#define GATE_METADATA_PATH "/.well-known/oauth-protected-resource"

/* A body of any length, which the route streams. */
#define GATE_BODY_STREAM UINT64_MAX

enum gate_access {
	GATE_ACCESS_KEY,  /* a valid key; otherwise the gate answers 401 */
	GATE_ACCESS_OWN,  /* the face finds out, and calls gate_request_denied() for each failure */
	GATE_ACCESS_OPEN, /* anybody */
};

struct gate_route {
	const char *method;
	const char *path; /* "/a/{id}/b"; "{rest...}" as its last segment is the rest of the path */
	void (*begin)(struct gate_request *request); /* the head has come */
	uint64_t max_body; /* more bytes are refused with 413; 0: there should be none */
	enum gate_access access;
	bool loopback;    /* only for clients of this host; for others there is no such path */
	bool takes_token; /* with GATE_ACCESS_KEY: a JSON Web Token does as well as a key */
	/* A workspace's server answers: it says itself which pages may read the answer, and how. */
	bool relayed;
	/* For the begin functions of E2B's faces: when the body has come, find(), unless it is
	 * NULL, finds what the request names, and then act() is called (e2b/op.h). */
	void (*find)(struct op *op);
	void (*act)(struct op *op);
};

struct gate_face {
	const char *name;
	/* Whether the request is for this face, by its host or headers; NULL: any is. */
	bool (*takes)(const struct gate_request *request);
	const struct gate_route *routes;
	size_t n_routes;
};

/* All faces, in the order in which they are asked (face_list.c). */
extern const struct gate_face *const gate_faces[];
extern const size_t gate_faces_count;
