// SPDX-License-Identifier: Apache-2.0
/* Runs in the client, on the caller's own command line. */
#include "client/arguments.h"

#include "client/cmd/command.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "json/json_read.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

static const struct {
	const char *name;
	enum param_type type;
} option_types[] = {
	{"timeout_ms", PARAM_INTEGER},
	{"idle_timeout_ms", PARAM_INTEGER},
	{"key_wait_ms", PARAM_INTEGER},
	{"yield_ms", PARAM_INTEGER},
	{"max_output", PARAM_INTEGER},
	{"stream", PARAM_BOOLEAN},
	{"keep_output", PARAM_BOOLEAN},
	{"line_numbers", PARAM_BOOLEAN},
	{"gitignore", PARAM_BOOLEAN},
	{"blocked_list", PARAM_BOOLEAN},
};

void json_put(struct json_object *object, const char *key, struct json_object *value)
{
	if (!object || !value || json_object_object_add(object, key, value) < 0) {
		complain("out of memory");
		_exit(STATUS_OWN_FAILURE);
	}
}

int duration_parse(const char *word, int64_t *ret_ms)
{
	static const struct {
		const char *name;
		int64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}};
	char *unit;
	int64_t number;

	if (word[0] < '0' || word[0] > '9')
		return -EINVAL; /* strtoll(3) would accept white space and signs */
	errno = 0;
	number = strtoll(word, &unit, 10);
	if (errno != 0 || number < 1)
		return -EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].name) != 0)
			continue;
		return __builtin_mul_overflow(number, units[i].ms, ret_ms) ? -EINVAL : 0;
	}
	return -EINVAL;
}

int size_parse(const char *word, uint64_t *ret_size)
{
	static const char units[] = "KMGT";
	const char *unit;
	uint64_t size;
	char *end;

	if (word[0] < '0' || word[0] > '9')
		return -EINVAL; /* strtoull(3) would accept white space and signs */
	errno = 0;
	size = strtoull(word, &end, 10);
	if (errno != 0 || size == 0)
		return -EINVAL;
	unit = *end ? strchr(units, *end) : NULL;
	if (*end && (!unit || end[1] != '\0'))
		return -EINVAL;
	for (ptrdiff_t i = unit ? unit - units : -1; i >= 0; i--)
		if (__builtin_mul_overflow(size, KIB, &size))
			return -EINVAL;
	*ret_size = size;
	return 0;
}

static struct json_object *typed_value(enum param_type type, const char *word)
{
	const struct json_bounds bounds = json_request_bounds(strlen(word));
	struct json_object *value;
	struct json_report report;
	char *end;
	int64_t number;

	if (type == PARAM_INTEGER) {
		errno = 0;
		number = strtoll(word, &end, 10);
		if (errno == 0 && end != word && *end == '\0')
			return json_object_new_int64(number);
	}
	if (type == PARAM_BOOLEAN && strcmp(word, "true") == 0)
		return json_object_new_boolean(1);
	if (type == PARAM_BOOLEAN && strcmp(word, "false") == 0)
		return json_object_new_boolean(0);
	if (type == PARAM_EDITS && json_read(text_from(word), &bounds, &value, &report) == 0)
		return value;
	return json_object_new_string(word);
}

/* Splits "NAME=VALUE" at its first '='. */
static int split_assignment(const char *assignment, char **ret_name, const char **ret_value)
{
	const char *equals = strchr(assignment, '=');
	char *name;

	if (!equals || equals == assignment)
		return -EINVAL;
	name = strndup(assignment, (size_t)(equals - assignment));
	if (!name)
		return -ENOMEM;
	*ret_name = name;
	*ret_value = equals + 1;
	return 0;
}

int environment_add(struct json_object *options, const char *assignment)
{
	_cleanup_free_ char *name = NULL;
	struct json_object *environment;
	const char *value;
	int r;

	r = split_assignment(assignment, &name, &value);
	if (r < 0)
		return r;
	if (!json_object_object_get_ex(options, "env", &environment)) {
		environment = json_object_new_object();
		json_put(options, "env", environment);
	}
	json_put(environment, name, json_object_new_string(value));
	return 0;
}

int option_add(struct json_object *options, const char *assignment)
{
	_cleanup_free_ char *name = NULL;
	enum param_type type = PARAM_STRING;
	const char *value;
	int r;

	r = split_assignment(assignment, &name, &value);
	if (r < 0)
		return r;
	if (strcmp(name, "env") == 0)
		return environment_add(options, value);
	for (size_t i = 0; i < ARRAY_SIZE(option_types); i++) {
		if (strcmp(option_types[i].name, name) == 0)
			type = option_types[i].type;
	}
	json_put(options, name, typed_value(type, value));
	return 0;
}

int argument_add(struct json_object *arguments, const struct tool *tool, const char *assignment)
{
	_cleanup_free_ char *name = NULL;
	enum param_type type = PARAM_STRING;
	const char *value;
	int r;

	r = split_assignment(assignment, &name, &value);
	if (r < 0)
		return r;
	for (size_t i = 0; tool && i < TOOL_PARAMS_MAX && tool->params[i].name; i++) {
		if (strcmp(tool->params[i].name, name) == 0)
			type = tool->params[i].type;
	}
	json_put(arguments, name, typed_value(type, value));
	return 0;
}
