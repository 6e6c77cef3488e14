// SPDX-License-Identifier: Apache-2.0
/* For tests of the manual: prints cloisterd's tables as one JSON object. */
#include "common/cleanup.h"
#include "common/errors.h"
#include "common/tools.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/agent/tool/tool_definitions.h"
#include "supervisor/call/result/ended_by.h"
#include "supervisor/cell/cell.h"
#include "supervisor/config/config_keys.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/host/features.h"
#include "supervisor/schedule/admission.h"
#include "supervisor/selftest/selftest_suite.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static struct json_object *string(const char *text)
{
	return text ? json_object_new_string(text) : NULL;
}

static void add_string(struct json_object *array, const char *text)
{
	json_object_array_add(array, string(text));
}

/* Returns the default value as it would be written; NULL if there is none. */
static struct json_object *fallback(const struct config_key *key)
{
	char shown[32];

	switch (key->type) {
	case CONFIG_CHOICE:
		return string(key->choices[key->fallback]);
	case CONFIG_YES_NO:
		return string("no");
	case CONFIG_BYTES:
	case CONFIG_TIME:
	case CONFIG_NUMBER:
	case CONFIG_PERCENT:
	case CONFIG_MODE:
	case CONFIG_PORTS:
		return string(config_key_show(key, key->fallback, shown, sizeof(shown)));
	default:
		return NULL;
	}
}

static struct json_object *config_key(const struct config_key *key)
{
	struct json_object *object = json_object_new_object(), *choices = json_object_new_array();
	bool bounded = key->type == CONFIG_BYTES || key->type == CONFIG_TIME ||
		       key->type == CONFIG_NUMBER || key->type == CONFIG_PERCENT ||
		       key->type == CONFIG_MODE;
	char shown[32];

	for (size_t i = 0; i < CONFIG_CHOICES_MAX && key->choices[i]; i++)
		add_string(choices, key->choices[i]);
	json_object_object_add(object, "section",
		string(key->section == CONFIG_SECTION_HOST ? "cloister" : "tenant"));
	json_object_object_add(object, "name", string(key->name));
	json_object_object_add(object, "form", string(config_type_form(key->type)));
	json_object_object_add(object, "choices", choices);
	json_object_object_add(object, "default", fallback(key));
	json_object_object_add(object, "at_start", json_object_new_boolean(key->at_start));
	if (bounded) {
		json_object_object_add(object, "min",
			string(config_key_show(key, key->min, shown, sizeof(shown))));
		json_object_object_add(object, "max",
			string(config_key_show(key, key->max, shown, sizeof(shown))));
	}
	return object;
}

static struct json_object *methods_of(const struct endpoint *endpoint)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; i < endpoint->n_methods; i++) {
		const struct endpoint_method *method = &endpoint->methods[i];
		struct json_object *row = json_object_new_object(),
				   *params = json_object_new_array();

		for (size_t j = 0; method->params[j]; j++)
			add_string(params, method->params[j]);
		json_object_object_add(row, "params", params);
		json_object_object_add(
			row, "own_params", json_object_new_boolean(method->own_params));
		json_object_object_add(
			row, "admin", json_object_new_boolean(method->role == CONTROL_ROLE_ADMIN));
		json_object_object_add(object, method->name, row);
	}
	return object;
}

static struct json_object *words(const char *text)
{
	struct json_object *array = json_object_new_array();
	_cleanup_free_ char *copy = strdup(text);
	char *rest = copy, *word;

	while ((word = strsep(&rest, ", ")))
		if (*word)
			add_string(array, word);
	return array;
}

static struct json_object *names(const char *(*name)(unsigned number), unsigned from, unsigned to)
{
	struct json_object *array = json_object_new_array();

	for (unsigned i = from; i < to; i++)
		add_string(array, name(i));
	return array;
}

static const char *error_name(unsigned number)
{
	return tool_error_name((enum tool_error)number);
}

static const char *cause_name(unsigned number)
{
	return ended_by_name((enum ended_by)number);
}

static const char *limit_name(unsigned number)
{
	return admission_reason_name((enum admission_reason)number);
}

static const char *state_name(unsigned number)
{
	return cell_status_name((enum cell_status)number);
}

static const char *row_name(unsigned number)
{
	return selftest_suite[number].row;
}

int main(void)
{
	struct json_object *object = json_object_new_object(), *keys = json_object_new_array();

	for (size_t i = 0; i < config_keys_count; i++)
		json_object_array_add(keys, config_key(&config_keys[i]));
	json_object_object_add(object, "config_keys", keys);
	json_object_object_add(object, "agent_methods", methods_of(&agent_endpoint));
	json_object_object_add(object, "control_methods", methods_of(&control_endpoint));
	json_object_object_add(object, "tools", tool_definitions(TOOLS_ALL, TOOL_FORMAT_MCP, NULL));
	json_object_object_add(object, "features", words(feature_names()));
	json_object_object_add(object, "errors", names(error_name, TOOL_OK + 1, TOOL_ERROR_COUNT));
	json_object_object_add(object, "ended_by", names(cause_name, 0, ENDED_BY_COUNT));
	json_object_object_add(object, "limits", names(limit_name, 0, ADMISSION_REASONS));
	json_object_object_add(object, "cell_states", names(state_name, 0, CELL_STATUSES));
	json_object_object_add(
		object, "selftest_rows", names(row_name, 0, (unsigned)selftest_suite_count));
	puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
	json_object_put(object);
	return 0;
}
