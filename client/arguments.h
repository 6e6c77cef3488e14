/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns command-line words into JSON: NAME=VALUE assignments and durations. A value that does not
 * have the expected type is sent as a string, so that cloisterd, which validates all arguments,
 * answers with its error.
 */

#include "common/tools.h"

#include <json-c/json_object.h>
#include <stdint.h>

/* The format of JSON for people. Scripts can rely on one member a line. */
#define PRINTED_JSON \
	(JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE)

/**
 * Parses "500ms", "30s", "5m", "1h" or "30" (seconds) to milliseconds, at least 1. Returns 0 or
 * -EINVAL.
 */
int duration_parse(const char *word, int64_t *ret_ms);

/**
 * Parses a positive number, alone or followed by K, M, G or T (powers of 1024). Returns 0 or
 * -EINVAL.
 */
int size_parse(const char *word, uint64_t *ret_size);

/**
 * Adds "NAME=VALUE" to tool.call's @options; "env=NAME=VALUE" adds to its environment. Returns 0 or
 * -EINVAL.
 */
int option_add(struct json_object *options, const char *assignment);

/** Adds "NAME=VALUE" to the environment in tool.call's @options. Returns 0 or -EINVAL. */
int environment_add(struct json_object *options, const char *assignment);

/**
 * Adds "NAME=VALUE" to the @arguments of @tool, which may be NULL (unknown). Returns 0 or -EINVAL.
 */
int argument_add(struct json_object *arguments, const struct tool *tool, const char *assignment);

/** Adds @value, which it takes, as @key to @object. Exits if memory is out. */
void json_put(struct json_object *object, const char *key, struct json_object *value);
