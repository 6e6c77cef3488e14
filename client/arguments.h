/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From command-line words to JSON: NAME=VALUE assignments and durations.
 * A value that does not read as the type it should have is passed on as a string, so that
 * cloisterd, which validates everything, gives its typed answer.
 */

#include "common/tools.h"

#include <json-c/json_object.h>
#include <stdint.h>

/* How JSON is printed for people; scripts can rely on one member a line. */
#define PRINTED_JSON \
	(JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE)

/** Milliseconds of "500ms", "30s", "5m", "1h" or "30" (seconds), at least 1. 0 or -EINVAL. */
int duration_parse(const char *word, int64_t *ret_ms);

/** A number above zero, alone or in K, M, G or T of 1024. 0 or -EINVAL. */
int size_parse(const char *word, uint64_t *ret_size);

/** Adds "NAME=VALUE" to tool.call's @options, "env=NAME=VALUE" to its environment. 0 or -EINVAL. */
int option_add(struct json_object *options, const char *assignment);

/** Adds "NAME=VALUE" to the environment in tool.call's @options. 0 or -EINVAL. */
int environment_add(struct json_object *options, const char *assignment);

/** Adds "NAME=VALUE" to @arguments of @tool, which may be NULL (unknown). 0 or -EINVAL. */
int argument_add(struct json_object *arguments, const struct tool *tool, const char *assignment);

/** Puts @value, which it takes, as @key into @object. Ends the program when there is no memory. */
void json_put(struct json_object *object, const char *key, struct json_object *value);
