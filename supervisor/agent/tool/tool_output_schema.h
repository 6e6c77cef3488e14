/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* MCP's description of a tool, besides its arguments. Runs in cloisterd; there is no input. */

#include "common/tools.h"

struct json_object;

/**
 * Returns the JSON Schema of the observations of @tool, which observation.c writes, or NULL if
 * memory is out.
 */
struct json_object *tool_output_schema(const struct tool *tool);

/** Returns MCP's ToolAnnotations of @tool, or NULL if memory is out. */
struct json_object *tool_annotations(const struct tool *tool);
