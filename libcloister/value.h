/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For programs of this tree, which have json-c too. The shared library does not export it. */

struct cloister_message;
struct json_object;

/**
 * Returns the value at @pointer, as cloister_get_json() takes it, borrowed; json_object_get() keeps
 * it longer than the message. NULL: there is none, or it is null.
 */
struct json_object *cloister_value(const struct cloister_message *message, const char *pointer);
