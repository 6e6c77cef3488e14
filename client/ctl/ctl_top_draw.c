// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterctl. ncurses(3X). The text was escaped when it came. */
#include "client/amount.h"
#include "client/ctl/ctl_table.h"
#include "client/ctl/ctl_top.h"
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
#define WIDE_COLUMNS  100 /* a call has its number on screens that are this wide */

/* Draws at most @cells cells of @text at @column, counting wide characters. */
static void put_top_cell(int line, int column, int cells, const char *text)
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
	put_top_cell(line, 0, COLS, text);
}

/* CPU, memory, I/O a second and the CPU time of ended commands, in 31 cells from @column on. */
static void draw_usage(int line, int column, const struct top_row *row)
{
	char text[128], memory[AMOUNT_BYTES], io[AMOUNT_BYTES], cpu[32] = "-", ended[32] = "-";

	if (row->cpu_milli >= 0)
		snprintf(cpu, sizeof(cpu), "%lld.%lld", row->cpu_milli / 10, row->cpu_milli % 10);
	if (row->ended_cpu_us >= 0)
		ctl_duration(row->ended_cpu_us / 1000, ended, sizeof(ended));
	snprintf(text, sizeof(text), "%6.8s %6.6s %6.6s %9.9s", cpu,
		amount(row->memory_bytes, memory), amount(row->io_rate, io), ended);
	put_top_cell(line, column, 31, text);
}

static void draw_call(int line, const struct top_row *row)
{
	bool wide = COLS >= WIDE_COLUMNS;
	int at = wide ? 17 : 0;
	char age[32];

	if (wide)
		put_top_cell(line, 0, 16, row->id);
	put_top_cell(line, at, 10, row->tenant);
	put_top_cell(line, at + 11, 14, row->workspace);
	put_top_cell(line, at + 26, 14, row->tool);
	put_top_cell(line, at + 41, 7, row->state);
	put_top_cell(line, at + 49, 7, ctl_duration(row->age_ms, age, sizeof(age)));
	if (COLS > at + 57)
		put_top_cell(line, at + 57, COLS - at - 57, row->subject);
}

static void draw_workspace(int line, const struct top_row *row)
{
	int more = COLS > 80 ? COLS - 80 : 0;
	char number[32];

	put_top_cell(line, 0, 12, row->tenant);
	put_top_cell(line, 13, 20 + more, row->workspace);
	put_top_cell(line, 34 + more, 8, row->state);
	snprintf(number, sizeof(number), "%4lld", row->commands);
	put_top_cell(line, 43 + more, 4, number);
	draw_usage(line, 48 + more, row);
}

static void draw_tenant(int line, const struct top_row *row)
{
	int more = COLS > 80 ? COLS - 80 : 0;
	char numbers[128];

	put_top_cell(line, 0, 20 + more, row->tenant);
	snprintf(numbers, sizeof(numbers), "%5lld %5lld %5lld %6lld", row->calls, row->commands,
		row->waiting, row->workspaces);
	put_top_cell(line, 21 + more, 26, numbers);
	draw_usage(line, 48 + more, row);
}

static void draw_row(int line, const struct top *top, const struct top_row *row, bool selected)
{
	static void (*const draw[TOP_VIEWS])(int line, const struct top_row *row) = {
		[TOP_CALLS] = draw_call,
		[TOP_WORKSPACES] = draw_workspace,
		[TOP_TENANTS] = draw_tenant,
	};

	if (selected)
		attron(A_REVERSE);
	mvhline(line, 0, ' ', COLS);
	draw[top->view](line, row);
	if (selected)
		attroff(A_REVERSE);
}

static void draw_heading(int line, enum top_view view)
{
	int more = COLS > 80 ? COLS - 80 : 0;

	if (view == TOP_CALLS)
		put_line(line, "%s%-10s %-14s %-14s %-7s %-7s %s",
			COLS >= WIDE_COLUMNS ? "CALL             " : "", "TENANT", "WORKSPACE",
			"TOOL", "STATE", "AGE", "COMMAND, PATH OR PATTERN");
	else if (view == TOP_WORKSPACES)
		put_line(line, "%-12s %-*s %-8s %4s %6s %6s %6s %9s", "TENANT", 20 + more,
			"WORKSPACE", "STATE", "CMDS", "CPU%", "MEM", "I/O/S", "CPU ENDED");
	else
		put_line(line, "%-*s %5s %5s %5s %6s  %6s %6s %6s %9s", 20 + more, "TENANT",
			"CALLS", "CMDS", "WAIT", "SPACES", "CPU%", "MEM", "I/O/S", "CPU ENDED");
}

/* Whether no row has what only cgroups tell. */
static bool is_unmeasured(const struct top *top)
{
	for (size_t i = 0; i < top->n_rows; i++)
		if (top->rows[i].cpu_milli >= 0 || top->rows[i].memory_bytes >= 0)
			return false;
	return top->view != TOP_CALLS && top->n_rows > 0;
}

void top_draw_help(void)
{
	static const char *const lines[] = {
		"cloisterctl top",
		"",
		"Tab         calls, workspaces, tenants",
		"a t w o     calls: sort by age, tenant, workspace, tool",
		"c m i t w   workspaces and tenants: sort by CPU, memory, I/O, names",
		"r           reverse the order",
		"/           show only rows that contain a text; Escape: all",
		"up, down    select; also Page Up, Page Down",
		"k           end the selected call, after a question",
		"? or h      this help",
		"q           quit",
		"",
		"CPU%        of one CPU, in the last seconds; MEM  memory and page cache",
		"I/O/S       bytes from and to devices a second",
		"CPU ENDED   CPU time of commands that have ended",
		"-           not known: a cgroup tells it, `cloisterctl status` why not",
		"",
		"any key goes back",
	};

	erase();
	for (int i = 0; i < (int)(sizeof(lines) / sizeof(lines[0])) && i < LINES; i++)
		put_top_cell(i, 0, COLS, lines[i]);
	refresh();
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
	return top->view == TOP_CALLS ? draw_tenants(top, 1) : 1;
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
		draw_row(line++, top, &top->rows[i], (long)i == selected);
}

void top_draw(struct top *top, const char *prompt)
{
	static const char *const keys[TOP_VIEWS] = {
		[TOP_CALLS] = "a age  t tenant  w workspace  o tool  k kill",
		[TOP_WORKSPACES] = "c CPU  m memory  i I/O  t tenant  w workspace",
		[TOP_TENANTS] = "c CPU  m memory  i I/O  t tenant",
	};
	int line;

	erase();
	line = draw_head(top);
	attron(A_BOLD);
	put_line(line, "by %s%s; %zu of %zu %s%s%s%s", top_order_name(top->orders[top->view]),
		top->reverse ? ", reversed" : "", top->n_rows, top->n_all, top_member(top->view),
		top->filter[0] ? " with: " : "", top->filter,
		is_unmeasured(top) ? "; no cgroups: CPU, MEM, I/O unknown" : "");
	draw_heading(line + 1, top->view);
	attroff(A_BOLD);
	draw_rows(top, line + 2);
	move(LINES - 1, 0);
	clrtoeol();
	if (prompt)
		put_line(LINES - 1, "%s", prompt);
	else if (top->message)
		put_line(LINES - 1, "%s", top->message);
	else
		put_line(LINES - 1, "%s  Tab view  ? help  q quit", keys[top->view]);
	refresh();
}
