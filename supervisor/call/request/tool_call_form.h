/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads a tool call in the form in which a model's API emits it: a name and an object of arguments.
 * Runs in cloisterd. The model wrote the call, and nothing in it is trusted.
 */

#include "common/text.h"

struct json_object;

/**
 * Reads {"function":{"name":…,"arguments":…}} with arguments an object (Ollama) or a string that
 * holds one (OpenAI). Arguments that are absent, null or an empty string become {}. Other members,
 * such as "id" and "type", are ignored.
 *
 * Stores the name, borrowed from @tool_call, and a reference to the arguments, which the caller
 * releases with json_object_put(3), and the memory that they took if a string held them. Returns 0;
 * -ENOMEM; -ENOBUFS if the arguments would take more than @memory; or -EINVAL with one sentence for
 * the model in @ret_message (malloc'ed; NULL if memory is out).
 */
int tool_call_form(struct json_object *tool_call, size_t memory, struct text *ret_name,
	struct json_object **ret_arguments, size_t *ret_memory, char **ret_message);
