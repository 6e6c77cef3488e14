/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The definitions of the tools for a model, generated from common/tools.c. Runs in cloisterd;
 * the only input is the name of a format.
 */

#include "common/text.h"
#include "common/tools.h"

struct json_object;
struct tenant_limits;

enum tool_format {
	TOOL_FORMAT_OLLAMA,   /* the form of the original specification, field for field */
	TOOL_FORMAT_OPENAI,   /* function tools of the chat completions API */
	TOOL_FORMAT_MCP,      /* Tool objects of the Model Context Protocol */
	TOOL_FORMAT_MCP_TEXT, /* likewise, of tools whose results are text only */
};

/** Stores the format called @name ("ollama", "openai", "mcp"). Returns 0 or -EINVAL. */
int tool_format_by_name(struct text name, enum tool_format *ret_format);

/**
 * Returns a new JSON array of the definitions of the tools of @set, for json_object_put(3), or NULL
 * if memory is out. With @limits the schemas contain the bounds of the tenant's calls; with NULL
 * they have none, like the original form.
 */
struct json_object *tool_definitions(
	enum tool_set set, enum tool_format format, const struct tenant_limits *limits);
