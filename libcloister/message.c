// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the program that uses the library. The messages came from the service: any member may be
 * missing or have another type.
 */
#include "common/base64.h"
#include "common/cleanup.h"
#include "libcloister/connection.h"
#include "libcloister/value.h"

#include <errno.h>
#include <json-c/json.h>
#include <json-c/json_pointer.h>
#include <string.h>

static const struct {
	const char *name;
	enum cloister_error error;
} errors[] = {
	{"PATH_OUTSIDE_WORKSPACE", CLOISTER_ERROR_PATH_OUTSIDE_WORKSPACE},
	{"SYMLINK_OUTSIDE_WORKSPACE", CLOISTER_ERROR_SYMLINK_OUTSIDE_WORKSPACE},
	{"COMMAND_BLOCKED", CLOISTER_ERROR_COMMAND_BLOCKED},
	{"FILE_TOO_LARGE", CLOISTER_ERROR_FILE_TOO_LARGE},
	{"UNKNOWN_TOOL", CLOISTER_ERROR_UNKNOWN_TOOL},
	{"INVALID_ARGUMENTS", CLOISTER_ERROR_INVALID_ARGUMENTS},
	{"NOT_FOUND", CLOISTER_ERROR_NOT_FOUND},
	{"NOT_A_DIRECTORY", CLOISTER_ERROR_NOT_A_DIRECTORY},
	{"IS_A_DIRECTORY", CLOISTER_ERROR_IS_A_DIRECTORY},
	{"NOT_A_REGULAR_FILE", CLOISTER_ERROR_NOT_A_REGULAR_FILE},
	{"PERMISSION_DENIED", CLOISTER_ERROR_PERMISSION_DENIED},
	{"TOO_MANY_LINKS", CLOISTER_ERROR_TOO_MANY_LINKS},
	{"NAME_TOO_LONG", CLOISTER_ERROR_NAME_TOO_LONG},
	{"NO_SPACE", CLOISTER_ERROR_NO_SPACE},
	{"INVALID_PATTERN", CLOISTER_ERROR_INVALID_PATTERN},
	{"PATTERN_TOO_COMPLEX", CLOISTER_ERROR_PATTERN_TOO_COMPLEX},
	{"TIMEOUT", CLOISTER_ERROR_TIMEOUT},
	{"CANCELLED", CLOISTER_ERROR_CANCELLED},
	{"OUTPUT_LIMIT", CLOISTER_ERROR_OUTPUT_LIMIT},
	{"MEMORY_LIMIT", CLOISTER_ERROR_MEMORY_LIMIT},
	{"PROCESS_LIMIT", CLOISTER_ERROR_PROCESS_LIMIT},
	{"BUSY", CLOISTER_ERROR_BUSY},
	{"QUOTA_EXCEEDED", CLOISTER_ERROR_QUOTA_EXCEEDED},
	{"FORBIDDEN", CLOISTER_ERROR_FORBIDDEN},
	{"WORKSPACE_NOT_FOUND", CLOISTER_ERROR_WORKSPACE_NOT_FOUND},
	{"WORKER_LOST", CLOISTER_ERROR_WORKER_LOST},
	{"SHUTTING_DOWN", CLOISTER_ERROR_SHUTTING_DOWN},
	{"EXECUTION_ERROR", CLOISTER_ERROR_EXECUTION_ERROR},
	{"NO_MATCH", CLOISTER_ERROR_NO_MATCH},
	{"AMBIGUOUS_MATCH", CLOISTER_ERROR_AMBIGUOUS_MATCH},
	{"EDITS_OVERLAP", CLOISTER_ERROR_EDITS_OVERLAP},
	{"STALE_FILE", CLOISTER_ERROR_STALE_FILE},
	{"KEY_CONFLICT", CLOISTER_ERROR_KEY_CONFLICT},
	{"OUTCOME_UNKNOWN", CLOISTER_ERROR_OUTCOME_UNKNOWN},
	{"SESSION_NOT_FOUND", CLOISTER_ERROR_SESSION_NOT_FOUND},
	{"MOVED", CLOISTER_ERROR_MOVED},
	{"LEASE_ENDED", CLOISTER_ERROR_LEASE_ENDED},
};

struct cloister_message *message_new(
	struct json_object *root, struct json_object *value, bool is_error)
{
	struct cloister_message *message = malloc(sizeof(*message));

	if (!message) {
		json_object_put(root);
		return NULL;
	}
	*message = (struct cloister_message){root, value, is_error};
	return message;
}

void cloister_message_free(struct cloister_message *message)
{
	if (!message)
		return;
	json_object_put(message->root);
	free(message);
}

/* Returns false if there is no such value. A null is NULL. */
static bool find_in_message(
	const struct cloister_message *message, const char *pointer, struct json_object **ret_value)
{
	if (!message->value) {
		*ret_value = NULL;
		return pointer[0] == '\0';
	}
	return json_pointer_get(message->value, pointer, ret_value) == 0;
}

/* Whether the message is the result of a tool that failed. */
static bool tool_failed(const struct cloister_message *message)
{
	bool success;

	return !message->is_error && cloister_get_bool(message, "/success", &success) == 0 &&
	       !success;
}

bool cloister_succeeded(const struct cloister_message *message)
{
	return !message->is_error && !tool_failed(message);
}

const char *cloister_error_name(const struct cloister_message *message)
{
	if (message->is_error)
		return cloister_get_string(message, "/data/code", NULL);
	return tool_failed(message) ? cloister_get_string(message, "/error/code", NULL) : NULL;
}

enum cloister_error cloister_error(const struct cloister_message *message)
{
	const char *name = cloister_error_name(message);

	for (size_t i = 0; name && i < ARRAY_SIZE(errors); i++)
		if (strcmp(name, errors[i].name) == 0)
			return errors[i].error;
	return cloister_succeeded(message) ? CLOISTER_ERROR_NONE : CLOISTER_ERROR_OTHER;
}

const char *cloister_error_message(const struct cloister_message *message)
{
	const char *text = NULL;

	if (cloister_succeeded(message))
		return NULL;
	text = cloister_get_string(
		message, message->is_error ? "/message" : "/error/message", NULL);
	return text ? text : "the service does not say why";
}

const char *cloister_moved_to(const struct cloister_message *message, bool *ret_exists)
{
	const char *node = NULL;
	bool exists = false;

	if (cloister_error(message) == CLOISTER_ERROR_MOVED)
		node = cloister_get_string(message, "/data/node", NULL);
	if (node && ret_exists) {
		(void)cloister_get_bool(message, "/data/exists", &exists);
		*ret_exists = exists;
	}
	return node;
}

int cloister_json_error(const struct cloister_message *message)
{
	int64_t number;

	if (!message->is_error || cloister_get_int64(message, "/code", &number) < 0)
		return 0;
	return number < INT32_MIN || number > INT32_MAX || number == 0 ? CLOISTER_JSON_SERVER_ERROR
								       : (int)number;
}

const char *cloister_get_string(
	const struct cloister_message *message, const char *pointer, size_t *ret_len)
{
	struct json_object *value;

	if (!find_in_message(message, pointer, &value) ||
		!json_object_is_type(value, json_type_string))
		return NULL;
	if (ret_len)
		*ret_len = (size_t)json_object_get_string_len(value);
	return json_object_get_string(value);
}

int cloister_get_bytes(const struct cloister_message *message, const char *pointer, void **ret_data,
	size_t *ret_len)
{
	_cleanup_free_ void *data = NULL;
	struct json_object *value;
	struct text encoded;
	int r;

	if (!find_in_message(message, pointer, &value))
		return -ENOENT;
	if (!json_object_is_type(value, json_type_string))
		return -EINVAL;
	encoded = (struct text){
		json_object_get_string(value), (size_t)json_object_get_string_len(value)};
	data = malloc(base64_decoded_size(encoded.len) + 1);
	if (!data)
		return -ENOMEM;
	r = base64_decode(encoded, data, ret_len);
	if (r == 0)
		*ret_data = TAKE_PTR(data);
	return r;
}

int cloister_get_int64(
	const struct cloister_message *message, const char *pointer, int64_t *ret_value)
{
	struct json_object *value;

	if (!find_in_message(message, pointer, &value))
		return -ENOENT;
	if (!json_object_is_type(value, json_type_int))
		return -EINVAL;
	*ret_value = json_object_get_int64(value);
	return 0;
}

int cloister_get_bool(const struct cloister_message *message, const char *pointer, bool *ret_value)
{
	struct json_object *value;

	if (!find_in_message(message, pointer, &value))
		return -ENOENT;
	if (!json_object_is_type(value, json_type_boolean))
		return -EINVAL;
	*ret_value = json_object_get_boolean(value);
	return 0;
}

int cloister_get_count(
	const struct cloister_message *message, const char *pointer, size_t *ret_count)
{
	struct json_object *value;

	if (!find_in_message(message, pointer, &value))
		return -ENOENT;
	if (json_object_is_type(value, json_type_array))
		*ret_count = json_object_array_length(value);
	else if (json_object_is_type(value, json_type_object))
		*ret_count = (size_t)json_object_object_length(value);
	else
		return -EINVAL;
	return 0;
}

const char *cloister_get_json(
	const struct cloister_message *message, const char *pointer, bool pretty)
{
	const int form =
		pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : JSON_C_TO_STRING_PLAIN;
	struct json_object *value;

	if (!find_in_message(message, pointer, &value))
		return NULL;
	return json_object_to_json_string_ext(value, form | JSON_C_TO_STRING_NOSLASHESCAPE);
}

struct json_object *cloister_value(const struct cloister_message *message, const char *pointer)
{
	struct json_object *value;

	return find_in_message(message, pointer, &value) ? value : NULL;
}
