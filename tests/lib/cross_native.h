/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The combinations of tool.call (cross.h). */

#include "tests/lib/cross.h"
#include "tests/lib/unit.h"

enum { ENCODING, MAX_OUTPUT, REPLY, KEY, TRANSACTION, YIELD, STREAM, KEEP, AXES };

/* clang-format off */
static const struct cross_axis axes[AXES] = {
	[ENCODING] =    {.values = {"", ",\"encoding\":\"base64\""}},
	[MAX_OUTPUT] =  {.values = {"", ",\"max_output\":3", ",\"max_output\":100000"}},
	[REPLY] =       {.values = {"", ",\"reply\":\"message\""}},
	[KEY] =         {.values = {"", "yes"}},
	[TRANSACTION] = {.values = {"", ",\"transaction\":\"preview\""}},
	[YIELD] =       {.values = {"", ",\"yield_ms\":5"}, .of_commands = true},
	[STREAM] =      {.values = {"", ",\"stream\":true", ",\"stream\":true,\"stream_bytes\":true"},
			 .of_commands = true},
	[KEEP] =        {.values = {"", ",\"keep_output\":false"}, .of_commands = true},
};
/* clang-format on */

static void make(const struct cross_slot *slot, size_t n, size_t id, char *line)
{
	static const size_t of_options[] = {
		ENCODING, MAX_OUTPUT, REPLY, TRANSACTION, YIELD, STREAM, KEEP};
	char options[512], key[32] = "";

	cross_put(axes, of_options, ARRAY_SIZE(of_options), slot->at, options, sizeof(options));
	if (slot->at[KEY])
		snprintf(key, sizeof(key), ",\"key\":\"%lu\"", slot->key);
	snprintf(line, CROSS_LINE_SIZE,
		REQUEST("%zu", "tool.call",
			"{\"tool\":\"%s\",\"workspace\":\"%s\",\"arguments\":%s,"
			"\"options\":{\"timeout_ms\":%d%s%s}}"),
		id, slot->call->tool, slot->workspace, slot->call->arguments, cross_timeout_ms(n),
		options, key);
}

static struct json_object *check(const struct cross_slot *slot, struct json_object *result)
{
	const char *content = cross_string(result, "content");

	if (!slot->at[REPLY]) {
		cross_check_observation(slot, result);
		return cross_same(result);
	}
	CROSS_CHECK(slot, strcmp(cross_string(result, "role"), "tool") == 0);
	CROSS_CHECK(slot, *cross_string(result, "tool_name") && *content);
	if (slot->at[ENCODING])
		return cross_parse(slot, content);
	CROSS_CHECK(slot, *content != '{');
	return json_object_get(result);
}

static bool has_key(const struct cross_slot *slot)
{
	return slot->at[KEY];
}

static bool is_preview(const struct cross_slot *slot)
{
	return slot->at[TRANSACTION];
}

static bool has_image(struct json_object *result)
{
	(void)result;
	return false;
}

static const struct cross_face face = {
	axes, AXES, make, check, has_key, is_preview, has_image, NULL};
