// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterctl. Nothing in the result comes from agents; it is escaped all the same. */
#include "client/ctl_health.h"

#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static struct json_object *member(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(object, name, &value) ? value : NULL;
}

static long long number(struct json_object *object, const char *name)
{
	return (long long)json_object_get_int64(member(object, name));
}

static const char *word(struct json_object *object, const char *name)
{
	const char *value = json_object_get_string(member(object, name));

	return value ? value : "-";
}

static size_t length(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

/* Whether each reason is one of @names. */
static bool all_are(struct json_object *reasons, const char *const *names)
{
	for (size_t i = 0; i < length(reasons); i++) {
		const char *reason = word(json_object_array_get_idx(reasons, i), "reason");
		const char *const *name = names;

		while (*name && strcmp(reason, *name) != 0)
			name++;
		if (!*name)
			return false;
	}
	return true;
}

bool health_is_good(struct json_object *result, bool ignore_full)
{
	static const char *const full[] = {"workspaces", "commands", "connections", NULL};
	struct json_object *reasons = member(result, "reasons");

	if (json_object_get_boolean(member(result, "healthy")))
		return true;
	return ignore_full && length(reasons) > 0 && all_are(reasons, full);
}

static void print_reasons(struct json_object *reasons)
{
	for (size_t i = 0; i < length(reasons); i++) {
		struct json_object *reason = json_object_array_get_idx(reasons, i);

		terminal_print(stdout, text_from(word(reason, "reason")));
		fputs(": ", stdout);
		terminal_print(stdout, text_from(word(reason, "message")));
		putchar('\n');
	}
}

static void print_room(struct json_object *result, const char *name, const char *heading)
{
	struct json_object *room = member(result, name);

	if (room)
		printf("%s%lld of %lld MiB left, unhealthy below %lld\n", heading,
			number(room, "free_bytes") >> 20, number(room, "size_bytes") >> 20,
			number(room, "free_min_bytes") >> 20);
}

void print_health(struct json_object *result)
{
	struct json_object *slots = member(result, "slots"), *load = member(result, "load");

	puts(health_is_good(result, false) ? "healthy" : "UNHEALTHY");
	print_reasons(member(result, "reasons"));
	if (json_object_is_type(slots, json_type_object)) {
		json_object_object_foreach (slots, name, slot) {
			terminal_print(stdout, text_from(name));
			printf("%*s%lld of %lld free\n", (int)(13 - strnlen(name, 12)), "",
				number(slot, "free"), number(slot, "limit"));
		}
	}
	print_room(result, "disk", "disk         ");
	print_room(result, "memory", "memory       ");
	if (load)
		printf("load         %.2f threads want a CPU, of %lld CPUs\n",
			(double)number(load, "runnable_percent") / 100, number(load, "cpus"));
}

/* A host goes on with what it has if it only takes nothing new. */
static void print_unfit(struct json_object *reasons)
{
	static const char *const new_only[] = {
		"shutting_down", "draining", "workspaces", "commands", "connections", NULL};

	if (length(reasons) > 0 && all_are(reasons, new_only)) {
		puts("drain");
		return;
	}
	fputs("down #", stdout);
	for (size_t i = 0; i < length(reasons); i++) {
		fputs(i > 0 ? " " : "", stdout);
		terminal_print(
			stdout, text_from(word(json_object_array_get_idx(reasons, i), "reason")));
	}
	putchar('\n');
}

/* The smallest free share of a kind of slots, in percent; at least 1, since the host has room. */
static long long free_share(struct json_object *slots)
{
	long long least = 100;

	if (!json_object_is_type(slots, json_type_object))
		return 1;
	json_object_object_foreach (slots, name, slot) {
		long long limit = number(slot, "limit"), share;

		(void)name;
		share = limit > 0 ? number(slot, "free") * 100 / limit : 0;
		least = share < least ? share : least;
	}
	return least > 0 ? least : 1;
}

void print_agent_check(struct json_object *result)
{
	if (!result)
		puts("down #no answer");
	else if (health_is_good(result, false))
		printf("ready up %lld%%\n", free_share(member(result, "slots")));
	else
		print_unfit(member(result, "reasons"));
}
