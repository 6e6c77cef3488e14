// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl. Names and commands come from agents: they are escaped before any other use.
 * Numbers come from cloisterd, which takes some from the kernel.
 */
#include "client/ctl/ctl_top.h"

#include "client/fields.h"
#include "client/terminal_text.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *top_text(struct json_object *object, const char *name)
{
	return terminal_text(field(object, name) ? field_text(object, name) : "-");
}

long long top_number(struct json_object *object, const char *name)
{
	return field_number(object, name);
}

static void free_row(struct top_row *row)
{
	free(row->tenant);
	free(row->workspace);
	free(row->tool);
	free(row->state);
	free(row->subject);
}

void top_free_rows(struct top *top)
{
	for (size_t i = 0; i < top->n_rows; i++)
		free_row(&top->rows[i]);
	free(top->rows);
	top->rows = NULL;
	top->n_rows = 0;
}

/* -1 if it is null or missing. */
static long long known(struct json_object *object, const char *name)
{
	return field(object, name) ? field_number(object, name) : -1;
}

/* A call's number, or a number made from the names: FNV-1a. */
static void put_id(const struct top *top, struct json_object *object, struct top_row *row)
{
	unsigned long long hash = 14695981039346656037ULL;
	char *id = top->view == TOP_CALLS ? top_text(object, "call") : NULL;

	for (const char *c = row->tenant; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
	for (const char *c = row->workspace; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211ULL;
	if (id)
		snprintf(row->id, sizeof(row->id), "%s", id);
	else
		snprintf(row->id, sizeof(row->id), "%016llx", hash);
	free(id);
}

static int make_row(const struct top *top, struct json_object *object, struct top_row *ret)
{
	bool command = json_object_object_get_ex(object, "command", NULL);
	struct top_row row = {
		.tenant = top_text(object, "tenant"),
		.workspace = top_text(object, "workspace"),
		.tool = top_text(object, "tool"),
		.state = top_text(object, "state"),
		.subject = top_text(object, command ? "command" : "subject"),
		.age_ms = top_number(object, "age_ms"),
		.calls = top_number(object, "calls"),
		.commands = top_number(object, "commands"),
		.waiting = top_number(object, "waiting"),
		.workspaces = top_number(object, "workspaces"),
		.cpu_milli = known(object, "cpu_milli"),
		.memory_bytes = known(object, "memory_bytes"),
		.io_rate = known(object, "io_bytes_per_second"),
		.ended_cpu_us = known(object, "ended_cpu_us"),
	};

	if (!row.tenant || !row.workspace || !row.tool || !row.state || !row.subject) {
		free_row(&row);
		return -ENOMEM;
	}
	put_id(top, object, &row);
	*ret = row;
	return 0;
}

static bool passes(const struct top *top, const struct top_row *row)
{
	return top->filter[0] == '\0' || strstr(row->tenant, top->filter) ||
	       strstr(row->workspace, top->filter) || strstr(row->tool, top->filter) ||
	       strstr(row->subject, top->filter);
}

/* The largest first; what is not known is -1 and so last. */
static int compare_numbers(long long one, long long other)
{
	return (one < other) - (one > other);
}

static int compare_by(enum top_order order, const struct top_row *one, const struct top_row *other)
{
	switch (order) {
	case TOP_BY_TENANT:
		return strcmp(one->tenant, other->tenant);
	case TOP_BY_WORKSPACE:
		return strcmp(one->workspace, other->workspace);
	case TOP_BY_TOOL:
		return strcmp(one->tool, other->tool);
	case TOP_BY_CPU:
		return compare_numbers(one->cpu_milli, other->cpu_milli);
	case TOP_BY_MEMORY:
		return compare_numbers(one->memory_bytes, other->memory_bytes);
	case TOP_BY_IO:
		return compare_numbers(one->io_rate, other->io_rate);
	default:
		return 0;
	}
}

static int compare(const void *a, const void *b, void *context)
{
	const struct top_row *one = a, *other = b;
	const struct top *top = context;
	int result = compare_by(top->orders[top->view], one, other);

	/* Equal rows: the oldest call first; by what commands used until now. */
	if (result == 0 && top->view == TOP_CALLS)
		result = compare_numbers(one->age_ms, other->age_ms);
	if (result == 0)
		result = compare_numbers(one->ended_cpu_us, other->ended_cpu_us);
	if (result == 0)
		result = strcmp(one->id, other->id);
	return top->reverse ? -result : result;
}

static const struct {
	const char *method, *member;
} views[TOP_VIEWS] = {
	[TOP_CALLS] = {"commands", "calls"},
	[TOP_WORKSPACES] = {"workspaces", "workspaces"},
	[TOP_TENANTS] = {"tenants", "tenants"},
};

const char *top_method(enum top_view view)
{
	return views[view].method;
}

const char *top_member(enum top_view view)
{
	return views[view].member;
}

int top_take(struct top *top, struct json_object *result)
{
	struct json_object *list = NULL;
	size_t n;

	json_object_object_get_ex(result, top_member(top->view), &list);
	n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	top_free_rows(top);
	top->n_all = n;
	top->rows = calloc(n + 1, sizeof(*top->rows));
	if (!top->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct top_row *row = &top->rows[top->n_rows];

		if (make_row(top, json_object_array_get_idx(list, i), row) < 0)
			return -ENOMEM;
		if (passes(top, row))
			top->n_rows++;
		else
			free_row(row);
	}
	qsort_r(top->rows, top->n_rows, sizeof(*top->rows), compare, top);
	return 0;
}

bool top_sort_by(struct top *top, int key)
{
	enum {
		CALLS = 1 << TOP_CALLS,
		WORKSPACES = 1 << TOP_WORKSPACES,
		TENANTS = 1 << TOP_TENANTS
	};
	static const struct {
		int key;
		enum top_order order;
		unsigned views;
	} orders[] = {
		{'a', TOP_BY_AGE, CALLS},
		{'t', TOP_BY_TENANT, CALLS | WORKSPACES | TENANTS},
		{'w', TOP_BY_WORKSPACE, CALLS | WORKSPACES},
		{'o', TOP_BY_TOOL, CALLS},
		{'c', TOP_BY_CPU, WORKSPACES | TENANTS},
		{'m', TOP_BY_MEMORY, WORKSPACES | TENANTS},
		{'i', TOP_BY_IO, WORKSPACES | TENANTS},
	};

	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (key != orders[i].key || !(orders[i].views & 1U << top->view))
			continue;
		top->orders[top->view] = orders[i].order;
		return true;
	}
	return false;
}

long top_selected(const struct top *top)
{
	for (size_t i = 0; i < top->n_rows; i++)
		if (strcmp(top->rows[i].id, top->selected) == 0)
			return (long)i;
	return top->n_rows > 0 ? 0 : -1;
}

const char *top_order_name(enum top_order order)
{
	static const char *const names[TOP_ORDERS] = {
		[TOP_BY_AGE] = "age",
		[TOP_BY_TENANT] = "tenant",
		[TOP_BY_WORKSPACE] = "workspace",
		[TOP_BY_TOOL] = "tool",
		[TOP_BY_CPU] = "CPU",
		[TOP_BY_MEMORY] = "memory",
		[TOP_BY_IO] = "I/O",
	};

	return names[order];
}
