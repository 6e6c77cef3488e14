// SPDX-License-Identifier: Apache-2.0
/* Runs in the client, on the caller's own command line. cloisterd decides what is valid. */
#include "client/cmd/properties.h"

#include "client/arguments.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "common/cleanup.h"

#include <errno.h>
#include <json-c/json.h>
#include <string.h>

/* The object @name of @object, which is made if there is none. */
static struct json_object *inner(struct json_object *object, const char *name)
{
	if (!field(object, name))
		json_put(object, name, json_object_new_object());
	return field(object, name);
}

static int complain_of(const char *option, const char *takes, const char *word)
{
	complain_code("USAGE", "%s takes %s, not '%s'", option, takes, word);
	return -EINVAL;
}

static int take_label(struct json_object *properties, const char *word)
{
	const char *equals = strchr(word, '=');
	_cleanup_free_ char *name = equals ? strndup(word, (size_t)(equals - word)) : NULL;

	if (!name || !*name)
		return complain_of("--label", "NAME=VALUE", word);
	json_put(inner(properties, "labels"), name, json_object_new_string(equals + 1));
	return 0;
}

static int take_lease(struct json_object *properties, const char *word)
{
	int64_t ms;

	if (duration_parse(word, &ms) < 0)
		return complain_of("--lease", "a duration such as 30s, 5m or 24h", word);
	json_put(inner(properties, "lease"), "ms", json_object_new_int64(ms));
	return 0;
}

static int take_at_end(struct json_object *properties, const char *word)
{
	if (strcmp(word, "close") != 0 && strcmp(word, "remove") != 0)
		return complain_of("--at-end", "close or remove", word);
	json_put(inner(properties, "lease"), "at_end", json_object_new_string(word));
	return 0;
}

static int take_away(struct json_object *properties, const char *word)
{
	static const char *const names[] = {"labels", "lease", "env"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(word, names[i]) != 0)
			continue;
		json_put(properties, names[i], json_object_new_object());
		return 0;
	}
	return complain_of("--clear", "labels, lease or env", word);
}

int properties_take(struct json_object *properties, int letter, const char *word)
{
	switch (letter) {
	case 'B':
		return take_label(properties, word);
	case 'd':
		return take_lease(properties, word);
	case 'z':
		return take_at_end(properties, word);
	case 'K':
		return take_away(properties, word);
	default:
		json_put(properties, "shown_at", json_object_new_string(word));
		return 0;
	}
}

int properties_put(const struct invocation *invocation, struct json_object *params)
{
	struct json_object *env = field(invocation->options, "env");
	struct json_object *lease = field(invocation->properties, "lease");

	if (field(lease, "at_end") && !field(lease, "ms")) {
		complain_code("USAGE", "--at-end needs --lease");
		return -EINVAL;
	}
	json_object_object_foreach (invocation->properties, name, value)
		json_put(params, name, json_object_get(value));
	if (env)
		json_put(params, "env", json_object_get(env));
	return 0;
}
