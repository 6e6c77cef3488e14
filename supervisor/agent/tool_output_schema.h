/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What MCP wants to know of a tool beyond its arguments. cloisterd; takes no input. */

#include "common/tools.h"

struct json_object;

/** JSON Schema of the observations of @tool, which observation.c writes. New; NULL: out of memory.
 */
struct json_object *tool_output_schema(const struct tool *tool);

/** MCP's ToolAnnotations of @tool. New; NULL: out of memory. */
struct json_object *tool_annotations(const struct tool *tool);
