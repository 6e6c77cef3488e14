// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The values come from clients, which are hostile. RFC 3339. */
#include "supervisor/workspace/managed/properties.h"

#include "common/cleanup.h"
#include "common/shown_at.h"
#include "common/text.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/unix_time.h"

#include <errno.h>
#include <json-c/json_object.h>
#include <json-c/linkhash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const lease_ends[] = {[LEASE_CLOSE] = "close", [LEASE_REMOVE] = "remove"};

const char *lease_end_name(enum lease_end at_end)
{
	return lease_ends[at_end];
}

static struct text string_of(struct json_object *value)
{
	return json_object_is_type(value, json_type_string)
		       ? (struct text){json_object_get_string(value),
				 (size_t)json_object_get_string_len(value)}
		       : (struct text){NULL, 0};
}

static bool is_plain(struct text text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

static bool are_labels(struct json_object *value)
{
	size_t bytes = 0, count = 0;

	if (!json_object_is_type(value, json_type_object))
		return false;
	json_object_object_foreach (value, name, member) {
		const struct text label = text_from(name), text = string_of(member);

		if (!text.data || label.len == 0 || label.len > LIMIT_LABEL_NAME_BYTES ||
			text.len > LIMIT_LABEL_VALUE_BYTES || !is_plain(label) || !is_plain(text))
			return false;
		bytes += label.len + text.len;
		count++;
	}
	return count <= LIMIT_LABELS && bytes <= LIMIT_LABELS_BYTES;
}

/* A name as POSIX (XBD 8.1) defines it, so that a shell can use it. */
static bool is_env_name(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	static const char all[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	return strspn(name, letters) > 0 && name[strspn(name, all)] == '\0';
}

const char *env_fault(struct json_object *value, size_t max_count, size_t max_bytes,
	size_t *ret_count, char *buffer, size_t size)
{
	size_t bytes = 0, count = 0;

	if (!json_object_is_type(value, json_type_object))
		return "must be an object of strings";
	json_object_object_foreach (value, name, member) {
		const struct text text = string_of(member);

		if (!is_env_name(name))
			return "must have names of letters, digits and \"_\" only, which do not "
			       "begin with a digit";
		if (!text.data || text_has_nul(text))
			return "must hold strings only, without NUL characters";
		bytes += strlen(name) + text.len + 2;
		count++;
	}
	if (count > max_count || bytes > max_bytes) {
		snprintf(buffer, size, "must have at most %zu variables and %zu bytes", max_count,
			max_bytes);
		return buffer;
	}
	*ret_count = count;
	return NULL;
}

static bool read_lease(struct json_object *value, int64_t now_ms, struct lease *ret)
{
	struct lease lease = {0};
	bool has_time = false;

	if (!json_object_is_type(value, json_type_object))
		return false;
	json_object_object_foreach (value, name, member) {
		const struct text text = string_of(member);

		if (strcmp(name, "ms") == 0 && json_object_is_type(member, json_type_int) &&
			!has_time && json_object_get_int64(member) > 0 &&
			json_object_get_int64(member) <= LIMIT_LEASE_MS) {
			lease.ends_ms = now_ms + json_object_get_int64(member);
			has_time = true;
		} else if (strcmp(name, "expires_at") == 0 && !has_time) {
			has_time = rfc3339_read(text, &lease.ends_ms);
			if (!has_time)
				return false;
		} else if (strcmp(name, "at_end") == 0 &&
			   text_equal(text, text_from(lease_ends[LEASE_REMOVE]))) {
			lease.at_end = LEASE_REMOVE;
		} else if (strcmp(name, "at_end") != 0 ||
			   !text_equal(text, text_from(lease_ends[LEASE_CLOSE]))) {
			return false;
		}
	}
	*ret = lease;
	return (has_time && lease.ends_ms > 0) || json_object_object_length(value) == 0;
}

static enum tool_error wrong_labels(struct refusal *ret_refusal)
{
	return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
		"labels must be an object of at most %d strings without control characters: names "
		"of 1 to %d bytes, values of at most %d bytes, together at most %llu bytes",
		LIMIT_LABELS, LIMIT_LABEL_NAME_BYTES, LIMIT_LABEL_VALUE_BYTES, LIMIT_LABELS_BYTES);
}

static enum tool_error take_lease(struct json_object *value, int64_t now_ms,
	struct properties *properties, struct refusal *ret_refusal)
{
	if (!read_lease(value, now_ms, &properties->lease))
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"lease must have either ms, a number from 1 to %lld, or expires_at, a time "
			"as RFC 3339 has it; and may have at_end, \"close\" or \"remove\"",
			(long long)LIMIT_LEASE_MS);
	if (properties->lease.ends_ms == 0)
		return TOOL_OK;
	if (properties->lease.ends_ms <= now_ms ||
		properties->lease.ends_ms - now_ms > LIMIT_LEASE_MS)
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"lease.expires_at must lie in the future, at most %lld milliseconds from "
			"now",
			(long long)LIMIT_LEASE_MS);
	return TOOL_OK;
}

static enum tool_error take_shown_at(
	struct json_object *value, struct properties *properties, struct refusal *ret_refusal)
{
	const struct text path = string_of(value);

	if (!path.data || !shown_at_is_valid(path))
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"shown_at must be an absolute path of at most %d bytes, of names of "
			"letters, digits, \".\", \"_\" and \"-\", without \".\" and \"..\"; and "
			"not "
			"\"/\", nor at or below /bin, /boot, /dev, /etc, /lib, /lib32, /lib64, "
			"/libx32, /proc, /run, /sbin, /sys, /tmp, /usr, /var or /home/agent",
			LIMIT_SHOWN_AT_BYTES);
	if (!text_equal(path, TEXT_LITERAL(SHOWN_AT_DEFAULT)))
		memcpy(properties->shown_at, path.data, path.len);
	return TOOL_OK;
}

static enum tool_error take_env(
	struct json_object *value, struct properties *properties, struct refusal *ret_refusal)
{
	char buffer[128];
	size_t count;
	const char *fault = env_fault(value, LIMIT_SPACE_ENV_COUNT, LIMIT_SPACE_ENV_BYTES, &count,
		buffer, sizeof(buffer));

	if (fault)
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS, "env %s", fault);
	properties->env = count > 0 ? json_object_get(value) : NULL;
	return TOOL_OK;
}

static enum tool_error take_property(enum property which, struct json_object *value, int64_t now_ms,
	struct properties *properties, struct refusal *ret_refusal)
{
	switch (which) {
	case PROPERTY_LABELS:
		if (!are_labels(value))
			return wrong_labels(ret_refusal);
		if (json_object_object_length(value) > 0)
			properties->labels = json_object_get(value);
		return TOOL_OK;
	case PROPERTY_LEASE:
		return take_lease(value, now_ms, properties, ret_refusal);
	case PROPERTY_SHOWN_AT:
		return take_shown_at(value, properties, ret_refusal);
	default:
		return take_env(value, properties, ret_refusal);
	}
}

static const struct {
	const char *name;
	enum property property;
} names[] = {
	{"labels", PROPERTY_LABELS},
	{"lease", PROPERTY_LEASE},
	{"shown_at", PROPERTY_SHOWN_AT},
	{"env", PROPERTY_ENV},
};

enum tool_error properties_read(struct json_object *params, unsigned which, int64_t now_ms,
	struct properties *ret, struct refusal *ret_refusal)
{
	struct properties properties = {0};
	struct json_object *value;
	enum tool_error error = TOOL_OK;

	for (size_t i = 0; error == TOOL_OK && i < ARRAY_SIZE(names); i++) {
		if (!(which & names[i].property) ||
			!json_object_object_get_ex(params, names[i].name, &value))
			continue;
		properties.given |= names[i].property;
		if (value)
			error = take_property(
				names[i].property, value, now_ms, &properties, ret_refusal);
	}
	if (error != TOOL_OK) {
		properties_done(&properties);
		return error;
	}
	*ret = properties;
	return TOOL_OK;
}

int properties_read_kept(struct json_object *kept, struct properties *ret)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct json_object *lease, *network;
	struct properties properties;

	if (!json_object_is_type(kept, json_type_object) ||
		properties_read(kept, PROPERTIES_ALL & ~PROPERTY_LEASE, 0, &properties, &refusal) !=
			TOOL_OK)
		return -EBADMSG;
	properties.given = 0;
	/* Its end may be over. */
	if (json_object_object_get_ex(kept, "lease", &lease) &&
		!read_lease(lease, 0, &properties.lease)) {
		properties_done(&properties);
		return -EBADMSG;
	}
	if (json_object_object_get_ex(kept, "network", &network) && string_of(network).data)
		properties.network = strdup(string_of(network).data);
	*ret = properties;
	return 0;
}

/* Each string is written as it was read: the reader took valid UTF-8 alone. */
static void put_strings(struct json_text *json, const char *key, struct json_object *strings)
{
	json_text_put_object(json, key);
	if (strings) {
		json_object_object_foreach (strings, name, value) {
			json_text_put_text(json, name, string_of(value));
		}
	}
	json_text_object_end(json);
}

static void put_lease(struct json_text *json, const struct lease *lease)
{
	char text[RFC3339_BYTES];

	json_text_key(json, "lease");
	if (lease->ends_ms == 0) {
		json_text_null(json);
		return;
	}
	rfc3339_put(lease->ends_ms, text);
	json_text_object_begin(json);
	json_text_put(json, "expires_at", text);
	json_text_put(json, "at_end", lease_ends[lease->at_end]);
	json_text_object_end(json);
}

void properties_put_listed(struct json_text *json, const struct properties *properties)
{
	put_strings(json, "labels", properties->labels);
	put_lease(json, &properties->lease);
}

void properties_write(struct json_text *json, const struct properties *properties)
{
	json_text_object_begin(json);
	put_strings(json, "labels", properties->labels);
	if (properties->lease.ends_ms > 0)
		put_lease(json, &properties->lease);
	if (properties->shown_at[0])
		json_text_put(json, "shown_at", properties->shown_at);
	put_strings(json, "env", properties->env);
	if (properties->network)
		json_text_put(json, "network", properties->network);
	json_text_object_end(json);
}

static void replace_object(struct json_object **object, struct json_object *given)
{
	json_object_put(*object);
	*object = json_object_get(given);
}

void properties_replace(struct properties *properties, const struct properties *given)
{
	if (given->given & PROPERTY_LABELS)
		replace_object(&properties->labels, given->labels);
	if (given->given & PROPERTY_ENV)
		replace_object(&properties->env, given->env);
	if (given->given & PROPERTY_LEASE)
		properties->lease = given->lease;
	if (given->given & PROPERTY_SHOWN_AT)
		memcpy(properties->shown_at, given->shown_at, sizeof(properties->shown_at));
	if (given->given & PROPERTY_NETWORK) {
		free(properties->network);
		properties->network = given->network ? strdup(given->network) : NULL;
	}
}

struct properties properties_copy(const struct properties *properties)
{
	struct properties copy = {0}, all;

	if (!properties)
		return copy;
	all = *properties;
	all.given = PROPERTIES_ALL;
	properties_replace(&copy, &all);
	return copy;
}

bool properties_have_labels(const struct properties *properties, struct json_object *wanted)
{
	struct json_object *own;

	if (!wanted)
		return true;
	json_object_object_foreach (wanted, name, value)
		if (!json_object_object_get_ex(properties->labels, name, &own) ||
			!text_equal(string_of(own), string_of(value)))
			return false;
	return true;
}

bool properties_are_none(const struct properties *properties)
{
	return !properties->labels && !properties->env && properties->lease.ends_ms == 0 &&
	       !properties->shown_at[0] && !properties->network;
}

void properties_done(struct properties *properties)
{
	json_object_put(properties->labels);
	json_object_put(properties->env);
	free(properties->network);
	*properties = (struct properties){0};
}
