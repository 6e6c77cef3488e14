// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterctl. The cells come from agents and models and are not trusted. */
#include "client/ctl/ctl_table.h"

#include "client/amount.h"
#include "client/cmd/command.h"
#include "client/fields.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COLUMNS_MAX 12

const char *ctl_duration(long long ms, char *buffer, size_t size)
{
	if (ms < 1000)
		snprintf(buffer, size, "%lldms", ms);
	else if (ms < 60000)
		snprintf(buffer, size, "%lld.%llds", ms / 1000, ms % 1000 / 100);
	else if (ms < 3600000)
		snprintf(buffer, size, "%lldm%02llds", ms / 60000, ms / 1000 % 60);
	else if (ms < 99 * 3600000LL)
		snprintf(buffer, size, "%lldh%02lldm", ms / 3600000, ms / 60000 % 60);
	else
		snprintf(buffer, size, "%lldd%02lldh", ms / 86400000, ms / 3600000 % 24);
	return buffer;
}

static char *cell(struct json_object *row, const struct ctl_column *column)
{
	struct json_object *value = field(row, column->key);
	char buffer[32];
	char *text;

	if (!value)
		text = strdup("-");
	else if (column->kind == CTL_DURATION)
		text = strdup(ctl_duration(json_object_get_int64(value), buffer, sizeof(buffer)));
	else if (column->kind == CTL_SIZE)
		text = strdup(amount(json_object_get_int64(value), buffer));
	else if (column->kind == CTL_YES_NO)
		text = strdup(json_object_get_boolean(value) ? "yes" : "no");
	else
		text = terminal_text(json_object_get_string(value));
	if (!text) {
		complain("out of memory");
		_exit(STATUS_OWN_FAILURE);
	}
	return text;
}

static void print_cell(const char *text, const struct ctl_column *column, size_t width)
{
	bool last = !column[1].key;
	bool right = column->kind == CTL_NUMBER || column->kind == CTL_DURATION ||
		     column->kind == CTL_SIZE;
	int pad = (int)(width - terminal_width(text));

	show("%*s%s%*s%s", right ? pad : 0, "", text, right || last ? 0 : pad, "",
		last ? "\n" : "  ");
}

void ctl_table(struct json_object *rows, const struct ctl_column *columns)
{
	size_t n_rows = elements(rows);
	size_t widths[COLUMNS_MAX] = {0};

	for (size_t i = 0; columns[i].key; i++)
		widths[i] = strlen(columns[i].heading);
	for (size_t row = 0; row < n_rows; row++)
		for (size_t i = 0; columns[i].key; i++) {
			_cleanup_free_ char *text = cell(element(rows, row), &columns[i]);

			if (terminal_width(text) > widths[i])
				widths[i] = terminal_width(text);
		}
	for (size_t i = 0; columns[i].key; i++)
		print_cell(columns[i].heading, &columns[i], widths[i]);
	for (size_t row = 0; row < n_rows; row++)
		for (size_t i = 0; columns[i].key; i++) {
			_cleanup_free_ char *text = cell(element(rows, row), &columns[i]);

			print_cell(text, &columns[i], widths[i]);
		}
}
