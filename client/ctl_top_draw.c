// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterctl. ncurses(3X). The text was escaped when it came. */
#include "client/ctl_table.h"
#include "client/ctl_top.h"
#include "common/cleanup.h"

#include <curses.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define TENANTS_SHOWN 4
#define WIDE_MAX      512

/* Draws at most @cells cells of @text at @column, counting wide characters. */
static void put(int line, int column, int cells, const char *text)
{
	wchar_t wide[WIDE_MAX];
	size_t n = mbstowcs(wide, text, WIDE_MAX - 1), shown = 0;
	int used = 0;

	if (n == (size_t)-1) {
		/* The locale cannot represent the text. */
		for (n = 0; n < WIDE_MAX - 1 && text[n]; n++)
			wide[n] = (unsigned char)text[n] < 0x80 ? (wchar_t)text[n] : L'?';
	}
	for (; shown < n; shown++) {
		int width = wcwidth(wide[shown]);

		if (used + (width > 0 ? width : 0) > cells)
			break;
		used += width > 0 ? width : 0;
	}
	if (shown > 0)
		mvaddnwstr(line, column, wide, (int)shown);
}

__attribute__((format(printf, 2, 3))) static void put_line(int line, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	put(line, 0, COLS, text);
}

static void draw_row(int line, const struct top_row *row, bool selected)
{
	char age[32];

	if (selected)
		attron(A_REVERSE);
	mvhline(line, 0, ' ', COLS);
	put(line, 0, 16, row->id);
	put(line, 17, 12, row->tenant);
	put(line, 30, 16, row->workspace);
	put(line, 47, 14, row->tool);
	put(line, 62, 8, row->state);
	put(line, 71, 8, ctl_duration(row->age_ms, age, sizeof(age)));
	if (COLS > 80)
		put(line, 80, COLS - 80, row->subject);
	if (selected)
		attroff(A_REVERSE);
}

/* Sorts by the number of calls, the largest first. */
static int compare_load(const void *a, const void *b)
{
	long long one = top_number(*(struct json_object *const *)a, "calls");
	long long other = top_number(*(struct json_object *const *)b, "calls");

	return (one < other) - (one > other);
}

static int draw_tenants(const struct top *top, int line)
{
	struct json_object *list = NULL;
	_cleanup_free_ struct json_object **sorted = NULL;
	size_t n;

	json_object_object_get_ex(top->tenants, "tenants", &list);
	n = json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;
	sorted = calloc(n + 1, sizeof(struct json_object *));
	if (!sorted)
		return line;
	for (size_t i = 0; i < n; i++)
		sorted[i] = json_object_array_get_idx(list, i);
	qsort(sorted, n, sizeof(struct json_object *), compare_load);
	for (size_t i = 0; i < n && i < TENANTS_SHOWN; i++, line++) {
		_cleanup_free_ char *name = top_text(sorted[i], "tenant");

		put_line(line, "tenant %-16.16s %lld calls, %lld workspaces, %lld connections",
			name ? name : "", top_number(sorted[i], "calls"),
			top_number(sorted[i], "workspaces"), top_number(sorted[i], "connections"));
	}
	if (n > TENANTS_SHOWN)
		put_line(line++, "and %zu more tenants", n - TENANTS_SHOWN);
	return line;
}

static int draw_head(const struct top *top)
{
	_cleanup_free_ char *state = top_text(top->status, "state");
	char up[32];

	put_line(0, "cloister: %s, up %s; %lld calls, of them %lld waiting; %lld commands running",
		state ? state : "",
		ctl_duration(top_number(top->status, "uptime_ms"), up, sizeof(up)),
		top_number(top->status, "calls"), top_number(top->status, "calls_waiting"),
		top_number(top->status, "commands_running"));
	return draw_tenants(top, 1);
}

static void draw_rows(struct top *top, int line)
{
	long selected = top_selected(top);
	size_t room = LINES - line - 1 > 0 ? (size_t)(LINES - line - 1) : 0;

	if (selected >= 0 && (size_t)selected < top->first)
		top->first = (size_t)selected;
	if (selected >= 0 && room > 0 && (size_t)selected >= top->first + room)
		top->first = (size_t)selected - room + 1;
	if (top->n_rows <= room)
		top->first = 0;
	for (size_t i = top->first; i < top->n_rows && room > 0; i++, room--)
		draw_row(line++, &top->rows[i], (long)i == selected);
}

void top_draw(struct top *top, const char *prompt)
{
	int line;

	erase();
	line = draw_head(top);
	attron(A_BOLD);
	put_line(line, "by %s%s; %zu of %zu calls%s%s", top_order_name(top->order),
		top->reverse ? ", reversed" : "", top->n_rows, top->n_calls,
		top->filter[0] ? " with: " : "", top->filter);
	put_line(line + 1, "%-16s %-12s %-16s %-14s %-8s %-8s %s", "CALL", "TENANT", "WORKSPACE",
		"TOOL", "STATE", "AGE", "COMMAND, PATH OR PATTERN");
	attroff(A_BOLD);
	draw_rows(top, line + 2);
	move(LINES - 1, 0);
	clrtoeol();
	if (prompt)
		put_line(LINES - 1, "%s", prompt);
	else if (top->message)
		put_line(LINES - 1, "%s", top->message);
	else
		put_line(LINES - 1, "a age  t tenant  w workspace  o tool  r reverse  / filter  k "
				    "kill  q quit");
	refresh();
}
