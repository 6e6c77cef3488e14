// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate. */

#include "gate/e2b/facts.h"

#include "gate/e2b/op.h"

#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Clients compare it to know what the data plane offers. */
#define ENVD_VERSION "0.6.4"
/* What a command may have; clients show these numbers, and cloisterd's limits are the tenant's. */
#define SHOWN_CPUS      1
#define SHOWN_MEMORY_MB 512
#define SHOWN_DISK_MB   1024
/* The last moment that RFC 3339 can write. */
#define LAST_MS 253402300799999

int64_t facts_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t facts_time(struct text text)
{
	char copy[40], *rest;
	struct tm tm = {0};
	int64_t ms = 0, unit = 100;

	if (text.len == 0 || text.len >= sizeof(copy) || text_has_nul(text))
		return -1;
	memcpy(copy, text.data, text.len);
	copy[text.len] = '\0';
	rest = strptime(copy, "%Y-%m-%dT%H:%M:%S", &tm);
	if (rest == NULL)
		return -1;
	if (*rest == '.') {
		for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
			ms += (*rest - '0') * unit;
	}
	return strcmp(rest, "Z") == 0 ? (int64_t)timegm(&tm) * 1000 + ms : -1;
}

void facts_time_write(int64_t ms, char ret_text[static 32])
{
	int64_t shown = ms < 0 ? 0 : ms > LAST_MS ? LAST_MS : ms;
	time_t seconds = (time_t)(shown / 1000);
	char date[24];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(ret_text, 32, "%s.%03dZ", date, (int)(shown % 1000));
}

static bool is_label(struct json_object *labels, const char *name, const char *value)
{
	return text_equal(json_text_of(labels, name), text_from(value));
}

void facts_workspace(struct text id, char ret_name[static SANDBOX_ID_LETTERS + 3])
{
	snprintf(ret_name, SANDBOX_ID_LETTERS + 3, "%.*s-1", SANDBOX_ID_LETTERS, id.data);
}

struct json_object *facts_row(struct json_object *rows, struct text id)
{
	for (size_t i = 0;
		json_object_is_type(rows, json_type_array) && i < json_object_array_length(rows);
		i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (text_equal(json_text_of(json_member_of(row, "labels"), FACTS_ID), id))
			return row;
	}
	return NULL;
}

bool facts_read(struct json_object *row, int64_t now_ms, struct facts *ret)
{
	struct json_object *labels = json_member_of(row, "labels");
	struct json_object *lease = json_member_of(row, "lease");
	struct facts facts = {.labels = labels,
		.id = json_text_of(labels, FACTS_ID),
		.generation = json_text_of(labels, FACTS_GENERATION),
		.workspace = json_text_of(row, "workspace"),
		.template_name = json_text_of(labels, FACTS_TEMPLATE),
		.open = is_label(labels, FACTS_OPEN, "yes"),
		.private_ports = is_label(labels, FACTS_PRIVATE, "yes"),
		.pauses = is_label(labels, FACTS_ON_TIMEOUT, "pause"),
		.resumes = is_label(labels, FACTS_RESUME, "yes")};
	struct text started = json_text_of(labels, FACTS_STARTED);

	if (!sandbox_id_valid(facts.id) || facts.workspace.len == 0)
		return false;
	/* json-c ends its strings with a NUL. */
	facts.started_ms = started.len > 0 ? strtoll(started.data, NULL, 10) : 0;
	facts.ends_ms = facts_time(json_text_of(lease, "expires_at"));
	if (facts.ends_ms > now_ms + FACTS_END_MS)
		facts.state = FACTS_RUNNING;
	else if (facts.ends_ms >= 0 &&
		 text_equal(json_text_of(lease, "at_end"), TEXT_LITERAL("remove")))
		facts.state = FACTS_KILLED;
	else
		facts.state = FACTS_PAUSED;
	*ret = facts;
	return true;
}

static void put_time(struct json_object *object, const char *name, int64_t ms)
{
	char text[32];

	facts_time_write(ms, text);
	json_put_text(object, name, text_from(text));
}

static void put_metadata(struct json_object *object, struct json_object *labels)
{
	struct json_object *metadata = json_object_new_object();

	json_object_object_foreach (labels, name, value) {
		if (strncmp(name, FACTS_METADATA, strlen(FACTS_METADATA)) == 0)
			json_object_object_add(
				metadata, name + strlen(FACTS_METADATA), json_object_get(value));
	}
	json_object_object_add(object, "metadata", metadata);
}

static void put_detail(struct json_object *object, const struct facts *facts)
{
	struct text network = json_text_of(facts->labels, FACTS_NETWORK);
	struct json_object *lifecycle = json_object_new_object();

	if (network.len > 0)
		json_object_object_add(object, "network", json_of(network));
	if (is_label(facts->labels, FACTS_INTERNET, "no"))
		json_object_object_add(
			object, "allowInternetAccess", json_object_new_boolean(false));
	json_put_text(lifecycle, "onTimeout", text_from(facts->pauses ? "pause" : "kill"));
	json_object_object_add(lifecycle, "autoResume", json_object_new_boolean(facts->resumes));
	json_object_object_add(object, "lifecycle", lifecycle);
}

struct json_object *facts_show(const struct facts *facts, bool detail)
{
	struct json_object *object = json_object_new_object();
	int64_t ends = facts->ends_ms > 0 ? facts->ends_ms : facts->started_ms;

	json_put_text(object, "sandboxID", facts->id);
	json_put_text(object, "clientID", TEXT_LITERAL("cloister"));
	json_put_text(object, "templateID", facts->template_name);
	json_put_text(object, "envdVersion", TEXT_LITERAL(ENVD_VERSION));
	json_put_text(object, "state",
		facts->state == FACTS_RUNNING ? TEXT_LITERAL("running") : TEXT_LITERAL("paused"));
	put_time(object, "startedAt", facts->started_ms);
	put_time(object, "endAt", ends);
	json_object_object_add(object, "cpuCount", json_object_new_int(SHOWN_CPUS));
	json_object_object_add(object, "memoryMB", json_object_new_int(SHOWN_MEMORY_MB));
	json_object_object_add(object, "diskSizeMB", json_object_new_int(SHOWN_DISK_MB));
	put_metadata(object, facts->labels);
	if (detail)
		put_detail(object, facts);
	return object;
}

struct json_object *facts_lease(int64_t ms, bool pauses)
{
	struct json_object *lease = json_object_new_object();

	json_object_object_add(lease, "ms", json_object_new_int64(ms));
	json_put_text(lease, "at_end", text_from(pauses ? "close" : "remove"));
	return lease;
}

struct json_object *facts_opening(const struct facts *facts, struct text workspace)
{
	struct json_object *params = json_object_new_object();
	struct text allow = json_text_of(facts->labels, FACTS_ALLOW);

	json_put_text(params, "workspace", workspace);
	json_object_object_add(params, "create", json_object_new_boolean(false));
	if (allow.len > 0)
		json_object_object_add(params, "network", json_of(allow));
	return params;
}
