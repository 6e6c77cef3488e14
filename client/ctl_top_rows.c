// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl. Names and commands come from agents: they are escaped before any other use.
 */
#include "client/ctl_top.h"

#include "client/terminal_text.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *top_text(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	if (!json_object_object_get_ex(object, name, &value) || !value)
		return strdup("-");
	return terminal_text(json_object_get_string(value));
}

long long top_number(struct json_object *object, const char *name)
{
	struct json_object *value = NULL;

	return json_object_object_get_ex(object, name, &value)
		       ? (long long)json_object_get_int64(value)
		       : 0;
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

static int make_row(struct json_object *call, struct top_row *ret)
{
	bool command = json_object_object_get_ex(call, "command", NULL);
	char *id = top_text(call, "call");
	struct top_row row = {
		.tenant = top_text(call, "tenant"),
		.workspace = top_text(call, "workspace"),
		.tool = top_text(call, "tool"),
		.state = top_text(call, "state"),
		.subject = top_text(call, command ? "command" : "subject"),
		.age_ms = top_number(call, "age_ms"),
	};

	if (!id || !row.tenant || !row.workspace || !row.tool || !row.state || !row.subject) {
		free(id);
		free_row(&row);
		return -ENOMEM;
	}
	snprintf(row.id, sizeof(row.id), "%s", id);
	free(id);
	*ret = row;
	return 0;
}

static bool passes(const struct top *top, const struct top_row *row)
{
	return top->filter[0] == '\0' || strstr(row->tenant, top->filter) ||
	       strstr(row->workspace, top->filter) || strstr(row->tool, top->filter) ||
	       strstr(row->subject, top->filter);
}

static int compare(const void *a, const void *b, void *context)
{
	const struct top_row *one = a, *other = b;
	const struct top *top = context;
	int result = 0;

	if (top->order == TOP_BY_TENANT)
		result = strcmp(one->tenant, other->tenant);
	else if (top->order == TOP_BY_WORKSPACE)
		result = strcmp(one->workspace, other->workspace);
	else if (top->order == TOP_BY_TOOL)
		result = strcmp(one->tool, other->tool);
	/* Equal rows: the oldest first. */
	if (result == 0)
		result = (one->age_ms < other->age_ms) - (one->age_ms > other->age_ms);
	if (result == 0)
		result = strcmp(one->id, other->id);
	return top->reverse ? -result : result;
}

int top_take_calls(struct top *top, struct json_object *calls)
{
	struct json_object *list = NULL;
	size_t n;

	json_object_object_get_ex(calls, "calls", &list);
	n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	top_free_rows(top);
	top->n_calls = n;
	top->rows = calloc(n + 1, sizeof(*top->rows));
	if (!top->rows)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct top_row *row = &top->rows[top->n_rows];

		if (make_row(json_object_array_get_idx(list, i), row) < 0)
			return -ENOMEM;
		if (passes(top, row))
			top->n_rows++;
		else
			free_row(row);
	}
	qsort_r(top->rows, top->n_rows, sizeof(*top->rows), compare, top);
	return 0;
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
	};

	return names[order];
}
