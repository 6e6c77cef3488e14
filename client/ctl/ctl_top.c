// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterctl. Trusts its keyboard and the cloisterd that it talks to, but not the names in
 * the answers.
 */
#include "client/ctl/ctl_top.h"

#include "client/cmd/command.h"
#include "client/reply.h"
#include "client/terminal_text.h"
#include "common/cleanup.h"

#include <curses.h>
#include <errno.h>
#include <json-c/json.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERY_MS 1000
#define KEY_ESC  27

static void say(struct top *top, const char *text)
{
	free(top->message);
	top->message = text ? terminal_text(text) : NULL;
}

/* Returns the result of @method, owned by the caller, or NULL after storing a message. */
static struct json_object *ask_top(struct cloister *cloister, const char *method,
	struct json_object *params, struct top *top, int *ret)
{
	_cleanup_message_ struct cloister_message *reply = NULL;

	*ret = request(cloister, method, params, &reply);
	if (*ret < 0)
		return NULL;
	if (!cloister_succeeded(reply))
		say(top, cloister_error_message(reply));
	return reply_result(reply);
}

static void replace(struct json_object **place, struct json_object *result)
{
	if (!result)
		return;
	json_object_put(*place);
	*place = result;
}

/* Fetches the current state from the service. Returns 0 or the error of the connection. */
static int refresh_all(struct cloister *cloister, struct top *top)
{
	struct json_object *rows;
	int r;

	replace(&top->status, ask_top(cloister, "status", json_object_new_object(), top, &r));
	if (r == 0)
		replace(&top->tenants,
			ask_top(cloister, "tenants", json_object_new_object(), top, &r));
	if (r < 0)
		return r;
	rows = ask_top(cloister, top_method(top->view), json_object_new_object(), top, &r);
	if (r == 0 && rows)
		r = top_take(top, rows);
	json_object_put(rows);
	return r;
}

static void move_selection(struct top *top, long by)
{
	long row = top_selected(top);

	if (row < 0)
		return;
	row += by;
	if (row < 0)
		row = 0;
	if (row >= (long)top->n_rows)
		row = (long)top->n_rows - 1;
	memcpy(top->selected, top->rows[row].id, sizeof(top->selected));
}

/* Lets the user edit the filter, starting with @text. Escape empties it. */
static void read_filter(struct top *top)
{
	char prompt[TOP_FILTER_BYTES + 32];
	size_t len;
	int key;

	timeout(-1);
	for (;;) {
		snprintf(prompt, sizeof(prompt), "only with: %s_", top->filter);
		top_draw(top, prompt);
		key = getch();
		len = strlen(top->filter);
		if (key == '\n' || key == '\r' || key == KEY_ENTER || key == ERR)
			break;
		if (key == KEY_ESC) {
			top->filter[0] = '\0';
			break;
		}
		if ((key == KEY_BACKSPACE || key == 127 || key == 8) && len > 0)
			top->filter[len - 1] = '\0';
		else if (key >= ' ' && key < 127 && len + 1 < sizeof(top->filter))
			snprintf(top->filter + len, sizeof(top->filter) - len, "%c", key);
	}
	timeout(EVERY_MS);
}

/* Returns 0 or the error of the connection. */
static int kill_selected(struct cloister *cloister, struct top *top)
{
	struct json_object *params, *result;
	char prompt[256], id[TOP_ID_BYTES];
	long row = top_selected(top);
	int key, r;

	if (top->view != TOP_CALLS)
		say(top, "only calls are ended: Tab goes to their list");
	if (row < 0 || top->view != TOP_CALLS)
		return 0;
	/* The screen is not refreshed during the question, so that the selection cannot move. */
	memcpy(id, top->rows[row].id, sizeof(id));
	snprintf(prompt, sizeof(prompt), "end %s of %.64s, %.64s? y/n", id, top->rows[row].tenant,
		top->rows[row].workspace);
	timeout(-1);
	do {
		top_draw(top, prompt);
		key = getch();
	} while (key == KEY_RESIZE);
	timeout(EVERY_MS);
	if (key != 'y' && key != 'Y') {
		say(top, "no call was ended");
		return 0;
	}
	params = json_object_new_object();
	json_object_object_add(params, "call", json_object_new_string(id));
	say(top, NULL);
	result = ask_top(cloister, "kill", params, top, &r);
	if (result)
		say(top, top_number(result, "told") > 0 ? "the call is being ended"
							: "the call was ending already");
	json_object_put(result);
	return r;
}

/* Until a key is pressed. */
static void show_help(void)
{
	timeout(-1);
	do
		top_draw_help();
	while (getch() == KEY_RESIZE);
	timeout(EVERY_MS);
}

/* Returns 1 to quit, 0 to go on, or the error of the connection. */
static int act_on_key(struct cloister *cloister, struct top *top, int key)
{
	if (key != ERR && key != KEY_RESIZE)
		say(top, NULL);
	if (top_sort_by(top, key))
		return 0;
	switch (key) {
	case '\t':
		top->view = (top->view + 1) % TOP_VIEWS;
		top->selected[0] = '\0';
		top_free_rows(top);
		break;
	case '?':
	case 'h':
		show_help();
		break;
	case 'q':
		return 1;
	case 'r':
		top->reverse = !top->reverse;
		break;
	case KEY_DOWN:
		move_selection(top, 1);
		break;
	case KEY_UP:
		move_selection(top, -1);
		break;
	case KEY_NPAGE:
		move_selection(top, LINES / 2);
		break;
	case KEY_PPAGE:
		move_selection(top, -LINES / 2);
		break;
	case '/':
		read_filter(top);
		break;
	case 'k':
		return kill_selected(cloister, top);
	default:
		break;
	}
	return 0;
}

static int loop(struct cloister *cloister, struct top *top)
{
	int r = 0;

	while (r == 0) {
		r = refresh_all(cloister, top);
		if (r < 0)
			break;
		top_draw(top, NULL);
		r = act_on_key(cloister, top, getch());
	}
	return r;
}

int top_run(struct cloister *cloister)
{
	const char *terminal = getenv("TERM");
	struct top top = {.orders = {TOP_BY_AGE, TOP_BY_CPU, TOP_BY_CPU}};
	SCREEN *screen;
	int r;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		complain("top needs a terminal; for a list: cloisterctl commands");
		return STATUS_USAGE;
	}
	setlocale(LC_CTYPE, "");
	/* Unlike initscr(3X), newterm(3X) returns after an error. */
	screen = newterm(terminal, stdout, stdin);
	if (!screen) {
		complain("top cannot use this terminal (TERM=%s); for a list: cloisterctl commands",
			terminal ? terminal : "");
		return STATUS_USAGE;
	}
	cbreak();
	noecho();
	keypad(stdscr, true);
	set_escdelay(100);
	curs_set(0);
	timeout(EVERY_MS);
	r = loop(cloister, &top);
	endwin();
	delscreen(screen);
	top_free_rows(&top);
	json_object_put(top.status);
	json_object_put(top.tenants);
	free(top.message);
	if (r >= 0)
		return STATUS_OK;
	connection_complain(r);
	return STATUS_NO_SERVICE;
}
