/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The five tools as a model's harness wants to be told about them, generated from common/tools.c.
 * Runs in cloisterd; takes no input but a format's name.
 */

#include "common/text.h"

struct json_object;
struct tenant_limits;

enum tool_format {
	TOOL_FORMAT_OLLAMA, /* the seed documents' form, field for field */
	TOOL_FORMAT_OPENAI, /* function tools of the chat completions API */
	TOOL_FORMAT_MCP,    /* Tool objects of the Model Context Protocol */
};

/** Stores the format called @name ("ollama", "openai", "mcp"). 0, or -EINVAL. */
int tool_format_by_name(struct text name, enum tool_format *ret_format);

/** A new JSON array of the tools' definitions, for json_object_put(3). With @limits the parameters'
 * schemas have the bounds that a tenant's calls are held to; NULL: they have none, as the seed's.
 * NULL when out of memory. */
struct json_object *tool_definitions(enum tool_format format, const struct tenant_limits *limits);
