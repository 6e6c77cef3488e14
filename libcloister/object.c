// SPDX-License-Identifier: Apache-2.0
/* Runs in the program that uses the library, on that program's values. */
#include "common/base64.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "libcloister/connection.h"
#include "json/json_read.h"

#include <errno.h>
#include <json-c/json.h>
#include <json-c/printbuf.h>
#include <string.h>

struct cloister_object {
	struct json_object *json;
	bool failed; /* a value could not be added */
};

int object_read(const char *data, size_t len, struct json_object **ret_value)
{
	const struct json_bounds bounds = {LIMIT_CLIENT_VALUES, LIMIT_CLIENT_MEMORY_BYTES};
	struct json_report report;
	int r = json_read((struct text){data, len}, &bounds, ret_value, &report);

	return r == -EBADMSG ? -EINVAL : r == -ENOBUFS ? -EMSGSIZE : r;
}

int json_add(struct json_object *object, const char *name, struct json_object *value)
{
	if (value && json_object_object_add(object, name, value) == 0)
		return 0;
	json_object_put(value);
	return -ENOMEM;
}

struct cloister_object *cloister_object_new(void)
{
	struct cloister_object *object = calloc(1, sizeof(*object));

	if (!object)
		return NULL;
	object->json = json_object_new_object();
	if (!object->json) {
		free(object);
		return NULL;
	}
	return object;
}

void cloister_object_free(struct cloister_object *object)
{
	if (!object)
		return;
	json_object_put(object->json);
	free(object);
}

const char *cloister_object_text(struct cloister_object *object)
{
	if (object->failed)
		return NULL;
	return json_object_to_json_string_ext(
		object->json, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

static int fail_object(struct cloister_object *object, int error)
{
	object->failed = true;
	return error;
}

static int add_object_value(
	struct cloister_object *object, const char *name, struct json_object *value)
{
	int r = json_add(object->json, name, value);

	return r < 0 ? fail_object(object, r) : 0;
}

int cloister_object_string(
	struct cloister_object *object, const char *name, const char *data, size_t len)
{
	if (len > LIMIT_LINE_BYTES || !utf8_is_valid((struct text){data, len}))
		return fail_object(object, -EINVAL);
	return add_object_value(
		object, name, json_object_new_string_len(len > 0 ? data : "", (int)len));
}

/* Writes base64, which needs no escapes; json-c would look at each character. */
static int write_base64(struct json_object *value, struct printbuf *to, int level, int flags)
{
	(void)level;
	(void)flags;
	printbuf_memappend(to, "\"", 1);
	printbuf_memappend(to, json_object_get_string(value), json_object_get_string_len(value));
	return printbuf_memappend(to, "\"", 1);
}

int json_add_base64(struct json_object *object, const char *name, const void *data, size_t len)
{
	_cleanup_free_ char *encoded = malloc(base64_encoded_size(len) + 1);
	struct json_object *value;

	if (!encoded)
		return -ENOMEM;
	len = base64_encode((struct text){data, len}, encoded);
	value = json_object_new_string_len(encoded, (int)len);
	if (value)
		json_object_set_serializer(value, write_base64, NULL, NULL);
	return json_add(object, name, value);
}

int cloister_object_bytes(
	struct cloister_object *object, const char *name, const void *data, size_t len)
{
	int r = len > LIMIT_LINE_BYTES ? -EINVAL : json_add_base64(object->json, name, data, len);

	return r < 0 ? fail_object(object, r) : 0;
}

int cloister_object_int64(struct cloister_object *object, const char *name, int64_t value)
{
	return add_object_value(object, name, json_object_new_int64(value));
}

int cloister_object_bool(struct cloister_object *object, const char *name, bool value)
{
	return add_object_value(object, name, json_object_new_boolean(value));
}

int cloister_object_json(struct cloister_object *object, const char *name, const char *json)
{
	struct json_object *value;
	int r = object_read(json, strlen(json), &value);

	if (r < 0)
		return fail_object(object, r);
	/* json-c represents null by NULL. */
	if (!value)
		return json_object_object_add(object->json, name, NULL) == 0
			       ? 0
			       : fail_object(object, -ENOMEM);
	return add_object_value(object, name, value);
}
