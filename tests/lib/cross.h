/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The cross product of what clients may combine: calls, options, and how they are sent. Each
 * combination is a request to the agent endpoint, with fake processes behind it, and each is held
 * to the same: one answer, in the form that was asked for; with a key the same answer again for a
 * call that joins it and for one that comes later; and a refusal that is typed and the same again.
 */

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/call/keys/keys.h"
#include "supervisor/config/config.h"
#include "supervisor/journal/journal.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/workers.h"

#include <json-c/json.h>

#define CROSS_USER      1001
#define CROSS_LINE_SIZE 2048
#define CROSS_SLOTS     8 /* combinations at one time, each in a workspace of its own */
#define CROSS_ANSWERS   4 /* of one combination; the last one is that to transaction.discard */
#define CROSS_SAYS      "say a|b|c" /* a command that does not end by itself */

static const char cross_config[] = "[cloister]\n"
				   "journal = fast\n"
				   "commands = 64\n"
				   "commands_per_cpu = 0\n"
				   "[tenant one]\n"
				   "users = 1001\n"
				   "managed = yes\n"
				   "command_timeout = 1min\n"
				   "tools = basic edit patch sessions\n";

static int cross_set_up(void **state)
{
	*state = fake_service_new(cross_config);
	fake_service_keep_keys(*state);
	return 0;
}

/* A call, with what it may be answered apart from refusals. */
struct cross_call {
	const char *tool, *arguments;
	bool is_command;   /* options of commands have an effect */
	bool acts_on_name; /* on a command in the background: each time it says something else */
};

/* clang-format off */
static const struct cross_call cross_calls[] = {
	{.tool = "read_file", .arguments = "{\"path\":\"f\"}"},
	{.tool = "read_file", .arguments = "{\"path\":\"image\"}"},
	{.tool = "read_file", .arguments = "{\"path\":\"binary\"}"},
	{.tool = "read_file", .arguments = "{\"path\":\"missing\"}"},
	{.tool = "read_file", .arguments = "{\"path\":\"f\",\"start_line\":2}"},
	{.tool = "read_file", .arguments = "{}"},
	{.tool = "write_file", .arguments = "{\"path\":\"f\",\"content\":\"AAAA\"}"},
	{.tool = "write_file", .arguments = "{\"path\":\"f\",\"content\":\"not base64\"}"},
	{.tool = "write_file", .arguments = "{\"path\":\"missing\",\"content\":\"\"}"},
	{.tool = "list_directory", .arguments = "{\"path\":\".\"}"},
	{.tool = "list_directory", .arguments = "{\"path\":\"missing\"}"},
	{.tool = "search_files", .arguments = "{\"pattern\":\"x\"}"},
	{.tool = "search_files", .arguments = "{\"pattern\":\"x\",\"path\":\"missing\"}"},
	{.tool = "edit_file", .arguments = "{\"path\":\"f\",\"edits\":[{\"old\":\"one\",\"new\":\"1\"}]}"},
	{.tool = "edit_file", .arguments = "{\"path\":\"missing\",\"edits\":[{\"old\":\"one\",\"new\":\"1\"}]}"},
	{.tool = "apply_patch", .arguments = "{\"patch\":\"*** Begin Patch\\n*** Delete File: x\\n*** End Patch\"}"},
	{.tool = "apply_patch", .arguments = "{\"patch\":\"x\"}"},
	{.tool = "run_command", .arguments = "{\"command\":\"echo hello\"}", .is_command = true},
	{.tool = "run_command", .arguments = "{\"command\":\"fail 3\"}", .is_command = true},
	{.tool = "run_command", .arguments = "{\"command\":\"cannot 2\"}", .is_command = true},
	{.tool = "run_command", .arguments = "{\"command\":\"" CROSS_SAYS "\"}", .is_command = true},
	{.tool = "run_command", .arguments = "{\"command\":\"" CROSS_SAYS "\",\"background\":true}", .is_command = true},
	{.tool = "read_output", .arguments = "{\"name\":\"there\"}", .acts_on_name = true},
	{.tool = "read_output", .arguments = "{\"name\":\"nowhere\"}", .acts_on_name = true},
	{.tool = "send_input", .arguments = "{\"name\":\"there\",\"input\":\"x\"}", .acts_on_name = true},
	{.tool = "stop_command", .arguments = "{\"name\":\"there\"}", .acts_on_name = true},
	{.tool = "list_commands", .arguments = "{}", .acts_on_name = true},
	{.tool = "fly", .arguments = "{}"},
};
/* clang-format on */

#define CROSS_AXES_MAX 12

/* One of the things that are combined: its values, as members of options or something else. */
struct cross_axis {
	const char *values[4]; /* the first one: as if it were not given; then those up to NULL */
	bool of_commands;      /* without an effect on other calls, which say so all the same */
};

static size_t cross_values(const struct cross_axis *axis)
{
	size_t n = 0;

	while (n < ARRAY_SIZE(axis->values) && axis->values[n])
		n++;
	return n;
}

/* Goes to the next combination for @call: the index of each axis' value is in @at, first all 0.
 * Axes of commands are the last ones, and for another call they move together. Returns false after
 * the last combination. */
static bool cross_next(
	const struct cross_axis *axes, size_t n, const struct cross_call *call, size_t at[])
{
	for (size_t i = 0; i < n; i++) {
		const bool together = axes[i].of_commands && !call->is_command;
		const size_t last = cross_values(&axes[i]) - 1;

		if (together && at[i] == last)
			return false;
		for (; together && i < n; i++)
			at[i] = cross_values(&axes[i]) - 1;
		if (together)
			return true;
		if (at[i]++ < last)
			return true;
		at[i] = 0;
	}
	return false;
}

/* Only the first call meets its deadline: one that joined it has its own, which comes later. */
static int cross_timeout_ms(size_t n)
{
	return n == 0 ? 6000 : 9000;
}

/* Puts the values that @at has of the @n axes @which one after the other. */
static void cross_put(const struct cross_axis *axes, const size_t which[], size_t n,
	const size_t at[], char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(
			text + len, size - len, "%s", axes[which[i]].values[at[which[i]]]);
	assert_true(len < size);
}

/* One combination, and what its client has been told. */
struct cross_slot {
	const struct cross_call *call;
	size_t at[CROSS_AXES_MAX];
	char workspace[8];
	unsigned long key;
	char lines[CROSS_ANSWERS][CROSS_LINE_SIZE];
	struct json_object *answers[CROSS_ANSWERS]; /* NULL: not yet, or no longer */
};

/* A way to send calls. */
struct cross_face {
	const struct cross_axis *axes;
	size_t n_axes;
	/* Makes the line of the request number @n of @slot, which has the id @id. */
	void (*make)(const struct cross_slot *slot, size_t n, size_t id, char *line);
	/* Checks the form of @result. Returns what has to be the same in each answer to the
	 * combination; the caller frees it. */
	struct json_object *(*check)(const struct cross_slot *slot, struct json_object *result);
	bool (*has_key)(const struct cross_slot *slot);
	bool (*is_preview)(const struct cross_slot *slot);
	/* Whether @result has an image, which is not given to a call that has joined. */
	bool (*has_image)(struct json_object *result);
	/* Makes the line that asks for what @result, of a task, has become, with the id @id; NULL:
	 * there are no tasks. Returns false if it is not of one. */
	bool (*follow)(
		const struct cross_slot *slot, struct json_object *result, size_t id, char *line);
};

static struct json_object *cross_get(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	json_object_object_get_ex(object, name, &value);
	return value;
}

static bool cross_is(struct json_object *object, const char *name, enum json_type type)
{
	return json_object_is_type(cross_get(object, name), type);
}

static const char *cross_string(struct json_object *object, const char *name)
{
	struct json_object *value = cross_get(object, name);

	return json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
}

#define CROSS_CHECK(slot, condition)                                                   \
	do {                                                                           \
		if (!(condition))                                                      \
			fail_msg("%s is not so for %s", #condition, (slot)->lines[0]); \
	} while (0)

/* The observation. */

static void cross_check_observation(const struct cross_slot *slot, struct json_object *observation)
{
	struct json_object *output = NULL, *error = NULL;
	const bool success = json_object_get_boolean(cross_get(observation, "success"));

	CROSS_CHECK(slot, cross_is(observation, "success", json_type_boolean));
	CROSS_CHECK(slot, cross_is(observation, "tool", json_type_string));
	CROSS_CHECK(slot, cross_is(observation, "usage", json_type_object));
	CROSS_CHECK(slot, json_object_object_get_ex(observation, "output", &output));
	CROSS_CHECK(slot, json_object_object_get_ex(observation, "error", &error));
	CROSS_CHECK(slot, success == !error);
	CROSS_CHECK(slot, !output || json_object_is_type(output, json_type_object));
	CROSS_CHECK(slot, !success || output);
	CROSS_CHECK(
		slot, success || (*cross_string(error, "code") && *cross_string(error, "message")));
}

/* Returns a copy of @observation, without what may differ between two answers that say the same. */
static struct json_object *cross_same(struct json_object *observation)
{
	static const char *const names[] = {"usage", "replayed", "key_horizon_ms"};
	struct json_object *copy = NULL, *error;

	assert_int_equal(json_object_deep_copy(observation, &copy, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		json_object_object_del(copy, names[i]);
	error = cross_get(copy, "error");
	if (error)
		json_object_object_del(error, "retry_after_ms");
	return copy;
}

/* Checks that @text is an observation as JSON. Returns it, as cross_same(). */
static struct json_object *cross_parse(const struct cross_slot *slot, const char *text)
{
	struct json_object *observation = json_tokener_parse(text), *same;

	CROSS_CHECK(slot, observation);
	cross_check_observation(slot, observation);
	same = cross_same(observation);
	json_object_put(observation);
	return same;
}

/* The connection. */

static struct cross_slot cross_slots[CROSS_SLOTS];
static size_t cross_n; /* slots in use */

/* After a failure, and after a signal, it tells what was tried. */
static int cross_tear_down(void **state)
{
	for (size_t i = 0; i < cross_n; i++)
		print_error("was tried: %s\n", cross_slots[i].lines[0]);
	fake_service_free(*state);
	return 0;
}

/* Takes a message of cloisterd: an answer, or a notification. */
static void cross_take_message(struct json_object *message)
{
	struct json_object *id = cross_get(message, "id");
	const size_t number = (size_t)json_object_get_int64(id);
	struct cross_slot *slot = &cross_slots[number / CROSS_ANSWERS];

	if (!id) {
		assert_true(cross_is(message, "method", json_type_string));
		json_object_put(message);
		return;
	}
	assert_true(json_object_is_type(id, json_type_int) && number < cross_n * CROSS_ANSWERS);
	CROSS_CHECK(slot, !slot->answers[number % CROSS_ANSWERS]); /* it is answered once */
	CROSS_CHECK(slot, !cross_get(message, "result") != !cross_get(message, "error"));
	slot->answers[number % CROSS_ANSWERS] = message;
}

/* Takes all that has come, which is one object of JSON a line, some with a payload behind it. */
static void cross_hear(struct fake_client *client)
{
	const char *text = fake_client_take(client), *end = text + strlen(text);

	while (text < end) {
		const size_t len = (size_t)(strchrnul(text, '\n') - text);
		struct json_tokener *tokener = json_tokener_new();
		struct json_object *message = json_tokener_parse_ex(tokener, text, (int)len);

		if (!message || json_tokener_get_parse_end(tokener) != len)
			fail_msg("not one JSON value a line: %s", text);
		json_tokener_free(tokener);
		text += len + (text + len < end);
		text += json_object_get_int64(cross_get(cross_get(message, "params"), "bytes"));
		cross_take_message(message);
	}
}

static char cross_unsent[CROSS_SLOTS * CROSS_ANSWERS * CROSS_LINE_SIZE];

static void cross_queue(const char *line)
{
	assert_true(strlen(line) < CROSS_LINE_SIZE - 1);
	strcat(cross_unsent, line);
	strcat(cross_unsent, "\n");
}

/* Adds the request number @n of @slot to those that are sent next. */
static void cross_add(const struct cross_face *face, struct cross_slot *slot, size_t n)
{
	const size_t id = (size_t)(slot - cross_slots) * CROSS_ANSWERS + n;

	if (n == CROSS_ANSWERS - 1)
		snprintf(slot->lines[n], CROSS_LINE_SIZE,
			REQUEST("%zu", "transaction.discard", "{\"workspace\":\"%s\"}"), id,
			slot->workspace);
	else
		face->make(slot, n, id, slot->lines[n]);
	cross_queue(slot->lines[n]);
}

static void cross_send(struct fake_client *client)
{
	fake_client_send(client, cross_unsent);
	cross_unsent[0] = '\0';
}

/* Returns a slot with a request that is not answered, or NULL. */
static const struct cross_slot *cross_missing(void)
{
	for (size_t i = 0; i < cross_n; i++)
		for (size_t n = 0; n < CROSS_ANSWERS; n++)
			if (*cross_slots[i].lines[n] && !cross_slots[i].answers[n])
				return &cross_slots[i];
	return NULL;
}

/* Waits until every request that has been sent is answered, letting time pass as far as it must:
 * what takes time are commands that go on, become tasks, or meet their deadlines. */
static void cross_await(struct fake_client *client)
{
	static const int64_t waits_ms[] = {0, 0, 0, 0, 10, 2500, 5000, 5000};
	size_t i = 0;

	cross_send(client);
	for (; i < ARRAY_SIZE(waits_ms) && cross_missing(); i++) {
		if (waits_ms[i] > 0)
			fake_service_pass(client->service, waits_ms[i]);
		cross_hear(client);
	}
	if (cross_missing())
		fail_msg("no answer to %s", cross_missing()->lines[0]);
}

/* Checks that the answers 0 and @n of @slot say the same, in the same form. */
static void cross_check_same(const struct cross_face *face, const struct cross_slot *slot, size_t n)
{
	struct json_object *first = face->check(slot, cross_get(slot->answers[0], "result"));
	struct json_object *other = face->check(slot, cross_get(slot->answers[n], "result"));

	if (n == 1 && face->has_image(cross_get(slot->answers[0], "result")))
		CROSS_CHECK(slot, strstr(json_object_to_json_string(other), "\"BUSY\""));
	else if (!json_object_equal(first, other))
		fail_msg("%s\n%s\nare not the same for %s", json_object_to_json_string(first),
			json_object_to_json_string(other), slot->lines[0]);
	json_object_put(first);
	json_object_put(other);
}

/* Checks that the answers 0 and @n of @slot are refusals in the same words. */
static void cross_check_refusals(const struct cross_slot *slot, size_t n)
{
	struct json_object *first = cross_get(slot->answers[0], "error");

	CROSS_CHECK(slot, json_object_get_int64(cross_get(first, "code")) != 0);
	CROSS_CHECK(slot, *cross_string(first, "message"));
	CROSS_CHECK(slot, json_object_equal(first, cross_get(slot->answers[n], "error")));
}

static bool cross_is_joined(const struct cross_face *face, const struct cross_slot *slot)
{
	return face->has_key(slot) && !slot->call->acts_on_name;
}

static void cross_check_slot(const struct cross_face *face, const struct cross_slot *slot)
{
	struct json_object *result = cross_get(slot->answers[0], "result");

	if (!result) {
		cross_check_refusals(slot, 2);
	} else if (cross_is_joined(face, slot)) {
		cross_check_same(face, slot, 1);
		cross_check_same(face, slot, 2);
	} else {
		json_object_put(face->check(slot, result));
		if (slot->answers[2])
			json_object_put(face->check(slot, cross_get(slot->answers[2], "result")));
	}
}

static unsigned long cross_tasks;

/* Asks for the results of the tasks that answers have told of, in place of those answers. */
static void cross_follow(struct fake_client *client, const struct cross_face *face)
{
	bool any = false;

	for (size_t i = 0; face->follow && i < cross_n; i++)
		for (size_t n = 0; n < CROSS_ANSWERS; n++) {
			struct cross_slot *slot = &cross_slots[i];
			struct json_object *result = cross_get(slot->answers[n], "result");

			if (!result ||
				!face->follow(slot, result, i * CROSS_ANSWERS + n, slot->lines[n]))
				continue;
			cross_queue(slot->lines[n]);
			json_object_put(slot->answers[n]);
			slot->answers[n] = NULL;
			any = true;
			cross_tasks++;
		}
	if (!any)
		return;
	fake_service_pass(client->service, 20000);
	cross_await(client);
}

/* Tries the combinations that are in slots. */
static void cross_try(struct fake_client *client, const struct cross_face *face)
{
	/* Requests come before any of them is answered: those with a key join their first one. */
	client->service->workers_wait = true;
	for (size_t i = 0; i < cross_n; i++) {
		cross_add(face, &cross_slots[i], 0);
		if (cross_is_joined(face, &cross_slots[i]))
			cross_add(face, &cross_slots[i], 1);
	}
	cross_send(client);
	client->service->workers_wait = false;
	cross_await(client);
	cross_follow(client, face);
	for (size_t i = 0; i < cross_n; i++)
		if (face->has_key(&cross_slots[i]) || cross_get(cross_slots[i].answers[0], "error"))
			cross_add(face, &cross_slots[i], 2);
	cross_await(client);
	cross_follow(client, face);
	for (size_t i = 0; i < cross_n; i++) {
		cross_check_slot(face, &cross_slots[i]);
		if (face->is_preview(&cross_slots[i]))
			cross_add(face, &cross_slots[i], 3);
	}
	cross_await(client);
	for (size_t i = 0; i < cross_n; i++)
		for (size_t n = 0; n < CROSS_ANSWERS; n++) {
			json_object_put(cross_slots[i].answers[n]);
			cross_slots[i].answers[n] = NULL;
			cross_slots[i].lines[n][0] = '\0';
		}
	cross_n = 0;
	fake_workers_exit(CROSS_SAYS); /* what has gone on as a session */
}

/* Opens two workspaces for each slot; in the first one a command runs in the background. */
static struct fake_client cross_open(struct fake_service *service)
{
	struct fake_client client =
		fake_client_connect(service, &agent_endpoint, CROSS_USER, CROSS_USER);

	memset(cross_slots, 0, sizeof(cross_slots));
	cross_n = 0;
	for (size_t i = 0; i < 2 * CROSS_SLOTS; i++) {
		char line[512];

		snprintf(line, sizeof(line),
			REQUEST("1", "workspace.open", "{\"workspace\":\"w%zu\"}") "\n", i);
		fake_client_send(&client, line);
		/* What is told once a connection is told now. */
		snprintf(line, sizeof(line),
			REQUEST("\"%zu\"", "tool.call",
				"{\"tool\":\"run_command\",\"workspace\":\"w%zu\",\"arguments\":{"
				"\"command\":\"%s\"%s},\"options\":{\"reply\":\"message\"}}"),
			i, i, i < CROSS_SLOTS ? "say x" : "true",
			i < CROSS_SLOTS ? ",\"background\":true,\"name\":\"there\"" : "");
		fake_client_send(&client, line);
		fake_client_send(&client, "\n");
	}
	fake_service_pass(service, 10000);
	(void)fake_client_take(&client);
	return client;
}

/* Tries all combinations of @face for each of the calls of the table, commands or others. */
static void cross_try_all(
	struct fake_service *service, const struct cross_face *face, bool commands)
{
	struct fake_client client = cross_open(service);
	struct keys_state keys;
	struct journal_state journal;
	unsigned long n = 0;

	assert_true(face->n_axes <= CROSS_AXES_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(cross_calls); i++) {
		size_t at[CROSS_AXES_MAX] = {0};

		if (cross_calls[i].is_command != commands)
			continue;
		do {
			struct cross_slot *slot = &cross_slots[cross_n++];

			slot->call = &cross_calls[i];
			snprintf(slot->workspace, sizeof(slot->workspace), "w%zu",
				cross_n - 1 + (cross_calls[i].acts_on_name ? 0 : CROSS_SLOTS));
			memcpy(slot->at, at, sizeof(at));
			slot->key = ++n;
			if (cross_n == CROSS_SLOTS)
				cross_try(&client, face);
		} while (cross_next(face->axes, face->n_axes, &cross_calls[i], at));
	}
	cross_try(&client, face);
	keys_look(service->service.keys, &keys, &journal);
	print_message("%lu combinations: %lu joined, %lu replayed, %lu previews, %lu tasks\n", n,
		(unsigned long)keys.joined, (unsigned long)keys.replayed,
		(unsigned long)service->service.config->tenants[0]->usage->previews, cross_tasks);
	fake_client_close(&client);
}
