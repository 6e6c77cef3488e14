// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterctl. Nothing in the result comes from agents; it is escaped all the same. */
#include "client/ctl/ctl_health.h"

#include "client/fields.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

static const char *word(struct json_object *object, const char *name)
{
	return field(object, name) ? field_text(object, name) : "-";
}

/* Whether each reason is one of @names. */
static bool all_are(struct json_object *reasons, const char *const *names)
{
	for (size_t i = 0; i < elements(reasons); i++) {
		const char *reason = word(element(reasons, i), "reason");
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
	struct json_object *reasons = field(result, "reasons");

	if (json_object_get_boolean(field(result, "healthy")))
		return true;
	return ignore_full && elements(reasons) > 0 && all_are(reasons, full);
}

static void print_reasons(struct json_object *reasons)
{
	for (size_t i = 0; i < elements(reasons); i++) {
		struct json_object *reason = element(reasons, i);

		show("%s: %s\n", word(reason, "reason"), word(reason, "message"));
	}
}

static void print_room(struct json_object *result, const char *name, const char *heading)
{
	struct json_object *room = field(result, name);

	if (room)
		show("%s%lld of %lld MiB left, unhealthy below %lld\n", heading,
			field_number(room, "free_bytes") >> 20,
			field_number(room, "size_bytes") >> 20,
			field_number(room, "free_min_bytes") >> 20);
}

void print_health(struct json_object *result)
{
	struct json_object *slots = field(result, "slots"), *load = field(result, "load");

	show("%s\n", health_is_good(result, false) ? "healthy" : "UNHEALTHY");
	print_reasons(field(result, "reasons"));
	if (json_object_is_type(slots, json_type_object)) {
		json_object_object_foreach (slots, name, slot) {
			show("%s%*s%lld of %lld free\n", name, (int)(13 - strnlen(name, 12)), "",
				field_number(slot, "free"), field_number(slot, "limit"));
		}
	}
	print_room(result, "disk", "disk         ");
	print_room(result, "memory", "memory       ");
	if (load)
		show("load         %.2f threads want a CPU, of %lld CPUs; load average %.2f\n",
			(double)field_number(load, "runnable_percent") / 100,
			field_number(load, "cpus"),
			(double)field_number(load, "average_percent") / 100);
}

/* A host goes on with what it has if it only takes nothing new. */
static void print_unfit(struct json_object *reasons)
{
	static const char *const new_only[] = {
		"shutting_down", "draining", "workspaces", "commands", "connections", NULL};

	if (elements(reasons) > 0 && all_are(reasons, new_only)) {
		show("drain\n");
		return;
	}
	show("down #");
	for (size_t i = 0; i < elements(reasons); i++)
		show("%s%s", i > 0 ? " " : "", word(element(reasons, i), "reason"));
	show("\n");
}

/* The smallest free share of a kind of slots, in percent; at least 1, since the host has room. */
static long long free_share(struct json_object *slots)
{
	long long least = 100;

	if (!json_object_is_type(slots, json_type_object))
		return 1;
	json_object_object_foreach (slots, name, slot) {
		long long limit = field_number(slot, "limit"), free = field_number(slot, "free");
		long long share = 0;

		(void)name;
		if (free > 0 && limit > 0)
			share = free < limit ? (long long)((double)free * 100 / (double)limit)
					     : 100;
		least = share < least ? share : least;
	}
	return least > 0 ? least : 1;
}

void print_agent_check(struct json_object *result)
{
	if (!result)
		show("down #no answer\n");
	else if (health_is_good(result, false))
		show("ready up %lld%%\n", free_share(field(result, "slots")));
	else
		print_unfit(field(result, "reasons"));
}
