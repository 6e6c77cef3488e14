// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, on JSON that the one reader has accepted. */
#include "supervisor/call/request/call_digest.h"

#include "common/cleanup.h"
#include "supervisor/call/request/call_request.h"
#include "supervisor/config/tenant.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>

#define ARGUMENTS_MAX 16 /* more than any tool has */

struct argument {
	const char *name;
	struct json_object *value;
};

static int compare_arguments(const void *a, const void *b)
{
	return strcmp(((const struct argument *)a)->name, ((const struct argument *)b)->name);
}

static struct json_object *options_of(const struct call_request *request)
{
	struct json_object *options = NULL;

	json_object_object_get_ex(request->params, "options", &options);
	return options;
}

static size_t list_arguments(const struct call_request *request, struct argument *list)
{
	struct json_object *arguments = request->arguments;
	struct json_object *base64 = NULL;
	size_t n = 0;

	if (json_object_object_get_ex(options_of(request), "path_base64", &base64))
		list[n++] = (struct argument){"path_base64", base64};
	if (!json_object_is_type(arguments, json_type_object))
		return n;
	json_object_object_foreach (arguments, name, value)
		if (n < ARGUMENTS_MAX && !(base64 && strcmp(name, "path") == 0))
			list[n++] = (struct argument){name, value};
	qsort(list, n, sizeof(*list), compare_arguments);
	return n;
}

static void add_argument(struct audit_digest *digest, const struct argument *argument)
{
	bool string = json_object_is_type(argument->value, json_type_string);
	struct text value;
	char head[32];
	int len;

	if (string) {
		value.data = json_object_get_string(argument->value);
		value.len = (size_t)json_object_get_string_len(argument->value);
	} else {
		value = text_from(json_object_to_json_string_ext(
			argument->value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	}
	len = snprintf(head, sizeof(head), "%c%zu", string ? 's' : 'j', value.len);
	audit_digest_add(digest, (struct text){argument->name, strlen(argument->name) + 1});
	audit_digest_add(digest, (struct text){head, (size_t)len + 1});
	audit_digest_add(digest, value);
}

static void add_arguments(struct audit_digest *digest, const struct call_request *request)
{
	struct argument list[ARGUMENTS_MAX];
	size_t n = list_arguments(request, list);

	for (size_t i = 0; i < n; i++)
		add_argument(digest, &list[i]);
}

int call_digest(const struct call_request *request, char hex[static AUDIT_HASH_DIGITS + 1])
{
	struct audit_digest *digest = audit_digest_new();

	if (!digest)
		return -ENOMEM;
	add_arguments(digest, request);
	audit_digest_end(digest, hex);
	return 0;
}

/* Adds a string and its NUL, which it has no other of. */
static void add_name(struct audit_digest *digest, const char *name)
{
	audit_digest_add(digest, (struct text){name, strlen(name) + 1});
}

int call_digest_key_id(const struct call_request *request, const char *workspace, int64_t made_ms,
	struct text key, uint8_t ret_id[static AUDIT_HASH_BYTES])
{
	struct audit_digest *digest = audit_digest_new();

	if (!digest)
		return -ENOMEM;
	add_name(digest, request->tenant->name);
	add_name(digest, workspace);
	if (made_ms > 0)
		audit_digest_add(digest, (struct text){(const char *)&made_ms, sizeof(made_ms)});
	audit_digest_add(digest, key);
	audit_digest_end_bytes(digest, ret_id);
	return 0;
}

int call_digest_key(struct call_request *request, const char *workspace, int64_t made_ms)
{
	static const char *const effective[] = {"env", "stdin", "encoding", "cwd"};
	struct json_object *options = options_of(request);
	struct call_key *key = &request->key;
	struct audit_digest *digest;
	int r = call_digest_key_id(request, workspace, made_ms, request->options.key, key->id);

	if (r < 0)
		return r;
	digest = audit_digest_new();
	if (!digest)
		return -ENOMEM;
	add_name(digest, request->tool->name);
	add_arguments(digest, request);
	for (size_t i = 0; i < ARRAY_SIZE(effective); i++) {
		struct argument option = {effective[i], NULL};

		if (json_object_object_get_ex(options, option.name, &option.value) && option.value)
			add_argument(digest, &option);
	}
	audit_digest_end_bytes(digest, key->digest);
	return 0;
}
