/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `cloisterctl top`: the calls in flight, and what workspaces and tenants use, live. ctl_top.c
 * handles the keys and asks the service, ctl_top_rows.c chooses and sorts the rows, ctl_top_draw.c
 * draws them.
 */

#include <stdbool.h>
#include <stddef.h>

struct cloister;
struct json_object;

#define TOP_ID_BYTES     17
#define TOP_FILTER_BYTES 64

enum top_view { TOP_CALLS, TOP_WORKSPACES, TOP_TENANTS, TOP_VIEWS };

enum top_order {
	TOP_BY_AGE,
	TOP_BY_TENANT,
	TOP_BY_WORKSPACE,
	TOP_BY_TOOL,
	TOP_BY_CPU,
	TOP_BY_MEMORY,
	TOP_BY_IO,
	TOP_ORDERS,
};

/*
 * One call, workspace or tenant. Texts are escaped for terminals; missing ones are "-". Numbers: -1
 * means unknown.
 */
struct top_row {
	char id[TOP_ID_BYTES]; /* the call's, or made from the names of a workspace or tenant */
	char *tenant, *workspace, *tool, *state, *subject;
	long long age_ms;
	long long calls, commands, waiting, workspaces;
	long long cpu_milli, memory_bytes, io_rate, ended_cpu_us;
};

struct top {
	enum top_view view;
	struct top_row *rows;             /* the rows that pass the filter, sorted */
	size_t n_rows, n_all;             /* those that are shown, and all */
	enum top_order orders[TOP_VIEWS]; /* of each view */
	bool reverse;
	char filter[TOP_FILTER_BYTES];
	char selected[TOP_ID_BYTES];          /* id of the selected row; empty: none */
	size_t first;                         /* index of the first visible row */
	struct json_object *status, *tenants; /* results, owned */
	char *message;                        /* shown in the last line, escaped; or NULL */
};

/** Runs until the user quits. Returns the exit status. */
int top_run(struct cloister *cloister);

/** The method whose result a view shows, and the member that has its rows. */
const char *top_method(enum top_view view);
const char *top_member(enum top_view view);

/**
 * Makes the rows of the view from @result, which its method returned. Returns 0 or -ENOMEM.
 */
int top_take(struct top *top, struct json_object *result);
void top_free_rows(struct top *top);

/** Sorts by what @key means in this view. Returns false if it means no order there. */
bool top_sort_by(struct top *top, int key);

/**
 * Returns the selected row; the first row if that one is gone; -1 if there are no rows.
 */
long top_selected(const struct top *top);

const char *top_order_name(enum top_order order);

/**
 * Returns a member's text, escaped for a terminal and malloc'ed; "-" if it is missing; NULL if
 * memory is out.
 */
char *top_text(struct json_object *object, const char *name);
long long top_number(struct json_object *object, const char *name);

/** Draws what the keys do. */
void top_draw_help(void);

/** Draws the whole screen. @prompt (NULL: none) replaces the last line. */
void top_draw(struct top *top, const char *prompt);
