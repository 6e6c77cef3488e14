/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `cloisterctl top`: the running calls, live. ctl_top.c handles the keys and asks the service,
 * ctl_top_rows.c chooses and sorts the rows, ctl_top_draw.c draws them.
 */

#include <stdbool.h>
#include <stddef.h>

struct cloister;
struct json_object;

#define TOP_ID_BYTES     17
#define TOP_FILTER_BYTES 64

enum top_order { TOP_BY_AGE, TOP_BY_TENANT, TOP_BY_WORKSPACE, TOP_BY_TOOL, TOP_ORDERS };

/* One call. Texts are escaped for terminals. */
struct top_row {
	char id[TOP_ID_BYTES];
	char *tenant, *workspace, *tool, *state, *subject;
	long long age_ms;
};

struct top {
	struct top_row *rows; /* the rows that pass the filter, sorted */
	size_t n_rows, n_calls;
	enum top_order order;
	bool reverse;
	char filter[TOP_FILTER_BYTES];
	char selected[TOP_ID_BYTES];          /* id of the selected call; empty: none */
	size_t first;                         /* index of the first visible row */
	struct json_object *status, *tenants; /* results, owned */
	char *message;                        /* shown in the last line, escaped; or NULL */
};

/** Runs until the user quits. Returns the exit status. */
int top_run(struct cloister *cloister);

/** Makes the rows from @calls, the result of `commands`. Returns 0 or -ENOMEM. */
int top_take_calls(struct top *top, struct json_object *calls);
void top_free_rows(struct top *top);

/**
 * Returns the row of the selected call; the first row if that call is gone; -1 if there are no
 * rows.
 */
long top_selected(const struct top *top);

const char *top_order_name(enum top_order order);

/**
 * Returns a member's text, escaped for a terminal and malloc'ed; "-" if it is missing; NULL if
 * memory is out.
 */
char *top_text(struct json_object *object, const char *name);
long long top_number(struct json_object *object, const char *name);

/** Draws the whole screen. @prompt (NULL: none) replaces the last line. */
void top_draw(struct top *top, const char *prompt);
