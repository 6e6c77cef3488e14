/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The combinations of MCP's tools/call, in each revision (cross.h). */

#include "tests/lib/cross.h"
#include "tests/lib/unit.h"

enum { REVISION, ENCODING, MAX_OUTPUT, KEY, OTHER, YIELD, PROGRESS, TASK, AXES };
enum { OF_2025_06, OF_2025_11, OF_2026_07 };

/* clang-format off */
static const struct cross_axis axes[AXES] = {
	[REVISION] =   {.values = {"2025-06-18", "2025-11-25", "2026-07-28"}},
	[ENCODING] =   {.values = {"", ",\"encoding\":\"base64\""}},
	[MAX_OUTPUT] = {.values = {"", ",\"max_output\":3"}},
	[KEY] =        {.values = {"", "yes"}},
	[OTHER] =      {.values = {"", ",\"transaction\":\"preview\"",
		",\"reply\":\"message\",\"stream\":true,\"stream_bytes\":true"}},
	[YIELD] =      {.values = {"", ",\"yield_ms\":5"}, .of_commands = true},
	[PROGRESS] =   {.values = {"", "yes"}, .of_commands = true},
	[TASK] =       {.values = {"", "yes"}, .of_commands = true},
};
/* clang-format on */

/* A task of 2025-11-25 is asked for in vain: the call is answered as without. */
static void make(const struct cross_slot *slot, size_t n, size_t id, char *line)
{
	static const size_t of_options[] = {ENCODING, MAX_OUTPUT, OTHER, YIELD};
	const size_t *at = slot->at;
	char options[256], key[64] = "", progress[64] = "";

	cross_put(axes, of_options, ARRAY_SIZE(of_options), at, options, sizeof(options));
	if (at[KEY])
		snprintf(key, sizeof(key), "\"cloister/key\":\"%lu\",", slot->key);
	if (at[PROGRESS])
		snprintf(progress, sizeof(progress), "\"progressToken\":%zu,", id);
	snprintf(line, CROSS_LINE_SIZE,
		REQUEST("%zu", "tools/call",
			"{\"name\":\"%s\",\"arguments\":%s%s,\"_meta\":{%s%s"
			"\"cloister/workspace\":\"%s\","
			"\"cloister/options\":{\"timeout_ms\":%d%s},"
			"\"io.modelcontextprotocol/protocolVersion\":\"%s\","
			"\"io.modelcontextprotocol/clientCapabilities\":{%s}}}"),
		id, slot->call->tool, slot->call->arguments,
		at[TASK] && at[REVISION] == OF_2025_11 ? ",\"task\":{\"ttl\":60000}" : "", key,
		progress, slot->workspace, cross_timeout_ms(n), options,
		axes[REVISION].values[at[REVISION]],
		at[TASK] && at[REVISION] == OF_2026_07
			? "\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}"
			: "");
}

static struct json_object *check(const struct cross_slot *slot, struct json_object *result)
{
	struct json_object *structured = cross_get(result, "structuredContent"), *same;
	struct json_object *content = cross_get(result, "content"), *block, *copy = NULL;
	const char *text;

	/* What has been a task is in its last state, and with its result. */
	if (cross_get(result, "taskId")) {
		CROSS_CHECK(slot, strcmp(cross_string(result, "status"), "completed") == 0);
		return check(slot, cross_get(result, "result"));
	}
	CROSS_CHECK(slot, json_object_is_type(content, json_type_array));
	cross_check_observation(slot, structured);
	CROSS_CHECK(slot, json_object_get_boolean(cross_get(result, "isError")) !=
				  json_object_get_boolean(cross_get(structured, "success")));
	CROSS_CHECK(slot, (slot->at[REVISION] == OF_2026_07) ==
				  (strcmp(cross_string(result, "resultType"), "complete") == 0));
	block = json_object_array_get_idx(content, 0);
	text = cross_string(block, "text");
	CROSS_CHECK(slot, strcmp(cross_string(block, "type"), "text") == 0 && *text);
	same = cross_same(structured);
	if (slot->at[ENCODING]) {
		struct json_object *parsed = cross_parse(slot, text);

		CROSS_CHECK(slot, json_object_equal(parsed, same));
		json_object_put(parsed);
		return same;
	}
	CROSS_CHECK(slot, *text != '{');
	assert_int_equal(json_object_deep_copy(content, &copy, NULL), 0);
	json_object_object_add(same, "content", copy);
	return same;
}

static bool has_key(const struct cross_slot *slot)
{
	return slot->at[KEY];
}

/* MCP has none: it is refused. */
static bool is_preview(const struct cross_slot *slot)
{
	(void)slot;
	return false;
}

static bool has_image(struct json_object *result)
{
	return cross_is(result, "content", json_type_array) &&
	       json_object_array_length(cross_get(result, "content")) > 1;
}

static bool follow(const struct cross_slot *slot, struct json_object *result, size_t id, char *line)
{
	const char *task = cross_string(result, "taskId");

	if (cross_get(result, "result") || !*task)
		return false;
	CROSS_CHECK(slot, slot->at[TASK] && slot->at[REVISION] == OF_2026_07);
	snprintf(line, CROSS_LINE_SIZE,
		REQUEST("%zu", "tasks/get",
			"{\"taskId\":\"%s\",\"_meta\":{"
			"\"io.modelcontextprotocol/protocolVersion\":\"%s\","
			"\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"
			"\"io.modelcontextprotocol/tasks\":{}}}}}"),
		id, task, axes[REVISION].values[slot->at[REVISION]]);
	return true;
}

static const struct cross_face face = {
	axes, AXES, make, check, has_key, is_preview, has_image, follow};
