/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `cloisterctl top`: what runs, live. ctl_top.c has the keys and asks the service, ctl_top_rows.c
 * chooses and orders what is shown, ctl_top_draw.c puts it on the screen. */

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
	struct top_row *rows; /* that the filter lets through, in their order */
	size_t n_rows, n_calls;
	enum top_order order;
	bool reverse;
	char filter[TOP_FILTER_BYTES];
	char selected[TOP_ID_BYTES];          /* of the calls; empty: none */
	size_t first;                         /* row on the screen */
	struct json_object *status, *tenants; /* results, owned */
	char *message;                        /* for the last line, escaped; or NULL */
};

/** Until the user has enough. The exit status. */
int top_run(struct cloister *cloister);

/** Makes the rows of @calls, the result of `commands`. 0 or -ENOMEM. */
int top_take_calls(struct top *top, struct json_object *calls);
void top_free_rows(struct top *top);

/** The row of the selected call; the first where that is gone; -1: there are none. */
long top_selected(const struct top *top);

const char *top_order_name(enum top_order order);

/** Text of a member, for a terminal, malloc'ed; "-" where there is none. NULL: out of memory. */
char *top_text(struct json_object *object, const char *name);
long long top_number(struct json_object *object, const char *name);

/** Draws all of it. @prompt (NULL: none) takes the place of the last line. */
void top_draw(struct top *top, const char *prompt);
