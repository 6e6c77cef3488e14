/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One JSON-RPC message of MCP. No input or output. The text is hostile. */

#include "common/text.h"

#include <stddef.h>

struct json_bounds;
struct json_object;

enum mcp_kind { MCP_REQUEST, MCP_NOTIFICATION, MCP_RESPONSE };

enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_METHOD_NOT_FOUND = -32601,
	MCP_INTERNAL_ERROR = -32603,
	MCP_HEADER_MISMATCH = -32020,
	MCP_MISSING_CAPABILITY = -32021,
	MCP_UNSUPPORTED_VERSION = -32022,
};

struct mcp_message {
	struct json_object *root;
	enum mcp_kind kind;
	const char *method; /* NULL: a response */
	const char *id;     /* as JSON text; NULL: it has none */
};

/**
 * Reads @text. Returns 0 with what mcp_message_done() releases; or an error's code with a static
 * sentence in @ret_fault.
 */
int mcp_message_read(struct text text, const struct json_bounds *bounds, struct mcp_message *ret,
	const char **ret_fault);
void mcp_message_done(struct mcp_message *message);

/** The member at @path of objects, which ends with NULL, as a string; NULL: there is none. */
const char *mcp_message_string(const struct mcp_message *message, const char *const *path);

/** The progress token of a request or notification, as JSON text; NULL: there is none. */
const char *mcp_message_progress_token(const struct mcp_message *message);

/** The id in a notification that cancels a request, as JSON text; NULL: there is none. */
const char *mcp_message_cancelled(const struct mcp_message *message);

/** The code of an error; 0: it is none. */
int mcp_message_error(const struct mcp_message *message);

/** Makes an error of JSON text @id, or of no request if that is NULL. */
struct json_object *mcp_message_make_error(const char *id, enum mcp_code code, const char *text);
