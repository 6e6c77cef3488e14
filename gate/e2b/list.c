// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client. Lists sandboxes: cloisterd filters by labels and gives
 * pages; the gate keeps of them only the rows that the client wants, newest first as E2B has it,
 * and at most as many as a page of it has.
 */

#include "common/cleanup.h"
#include "gate/e2b/own.h"
#include "gate/request.h"
#include "gate/route.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_DEFAULT 100
#define PAGE_ROWS    256 /* of cloisterd's pages: an answer has a bounded number of values */

struct listing {
	struct json_object *labels; /* held: what each row must have; NULL: nothing */
	struct json_object **rows;  /* held; sorted; one more than a page */
	size_t n_rows, limit;
	int64_t started_after;
	bool wants_running, wants_paused, ascending;
	struct text template_name; /* of the query */
	/* The last sandbox of the page before: the next ones come after it. */
	int64_t after_started;
	char after_id[SANDBOX_ID_LETTERS + 1];
};

static void listing_free(void *state)
{
	struct listing *listing = state;

	json_object_put(listing->labels);
	for (size_t i = 0; i < listing->n_rows; i++)
		json_object_put(listing->rows[i]);
	free(listing->rows);
	free(listing);
}

/* Less than 0: @a comes first. */
static int compare(
	const struct listing *listing, int64_t a, struct text a_id, int64_t b, struct text b_id)
{
	int order = (a > b) - (a < b);

	if (order == 0)
		order = memcmp(a_id.data, b_id.data, SANDBOX_ID_LETTERS);
	return listing->ascending ? order : -order;
}

static bool is_sandbox_wanted(const struct listing *listing, const struct facts *facts)
{
	if (facts->state == FACTS_KILLED || facts->started_ms < listing->started_after ||
		!(facts->state == FACTS_RUNNING ? listing->wants_running : listing->wants_paused))
		return false;
	if (listing->template_name.data &&
		!text_equal(listing->template_name, facts->template_name))
		return false;
	return listing->after_id[0] == '\0' ||
	       compare(listing, facts->started_ms, facts->id, listing->after_started,
		       text_from(listing->after_id)) > 0;
}

/* Inserts @row, which is taken. Rows behind the page are of no use. */
static void insert(struct listing *listing, struct json_object *row, const struct facts *facts)
{
	size_t at = listing->n_rows;
	struct facts other;

	while (at > 0 && facts_read(listing->rows[at - 1], 0, &other) &&
		compare(listing, facts->started_ms, facts->id, other.started_ms, other.id) < 0)
		at--;
	if (at > listing->limit) {
		json_object_put(row);
		return;
	}
	if (listing->n_rows > listing->limit)
		json_object_put(listing->rows[--listing->n_rows]);
	memmove(listing->rows + at + 1, listing->rows + at,
		(listing->n_rows - at) * sizeof(struct json_object *));
	listing->rows[at] = row;
	listing->n_rows++;
}

static void answer_sandbox_list(struct op *op)
{
	struct listing *listing = op->state;
	struct json_object *array = json_object_new_array();
	size_t n = listing->n_rows < listing->limit ? listing->n_rows : listing->limit;
	struct facts facts;
	char token[64];

	for (size_t i = 0; i < n; i++) {
		if (facts_read(listing->rows[i], facts_now(), &facts))
			json_object_array_add(array, facts_show(&facts, false));
	}
	if (listing->n_rows > n && n > 0 && facts_read(listing->rows[n - 1], 0, &facts)) {
		snprintf(token, sizeof(token), "%lld-%.*s", (long long)facts.started_ms,
			SANDBOX_ID_LETTERS, facts.id.data);
		gate_answer_header(op->request, "X-Next-Token", token);
	}
	op_answer(op, 200, array);
}

static void ask_page(struct op *op, const char *cursor);

static void listed(struct op *op, const struct cloister_message *reply)
{
	struct listing *listing = op->state;
	struct json_object *rows = op_read(op, reply, "/workspaces");
	const char *cursor = cloister_get_string(reply, "/next_cursor", NULL);
	struct facts facts;

	if (rows == NULL)
		return;
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct json_object *row = json_object_array_get_idx(rows, i);

		if (facts_read(row, facts_now(), &facts) && is_sandbox_wanted(listing, &facts))
			insert(listing, json_object_get(row), &facts);
	}
	json_object_put(rows);
	if (cursor)
		ask_page(op, cursor);
	else
		answer_sandbox_list(op);
}

static void ask_page(struct op *op, const char *cursor)
{
	struct listing *listing = op->state;
	struct json_object *params = json_object_new_object();

	if (listing->labels)
		json_object_object_add(params, "labels", json_object_get(listing->labels));
	json_object_object_add(params, "limit", json_object_new_int(PAGE_ROWS));
	if (cursor)
		json_put_text(params, "cursor", text_from(cursor));
	op_ask(op, "workspace.list", params, listed);
}

static void read_state(struct listing *listing, const char *state)
{
	struct text rest = text_from(state);

	listing->wants_running = listing->wants_paused = state == NULL;
	while (rest.len > 0) {
		struct text word = text_take(&rest, ',');

		listing->wants_running |= text_equal(word, TEXT_LITERAL("running"));
		listing->wants_paused |= text_equal(word, TEXT_LITERAL("paused"));
	}
}

/* "key=value&…", of which each part is percent-encoded once more. */
static bool read_metadata(struct listing *listing, const char *metadata)
{
	_cleanup_free_ char *copy = metadata ? strdup(metadata) : NULL;
	char *rest = copy, *pair;

	while ((pair = strsep(&rest, "&")) != NULL) {
		char *value = strchr(pair, '='), name[512];

		if (value == NULL)
			return pair[0] == '\0';
		*value++ = '\0';
		/* The clients encode each part, and the whole as a form. */
		if (!gate_percent_decode(pair) || !gate_percent_decode(value) ||
			!gate_percent_decode(pair) || !gate_percent_decode(value) ||
			(size_t)snprintf(name, sizeof(name), FACTS_METADATA "%s", pair) >=
				sizeof(name))
			return false;
		if (listing->labels == NULL)
			listing->labels = json_object_new_object();
		json_put_text(listing->labels, name, text_from(value));
	}
	return true;
}

static bool read_query(struct op *op, struct listing *listing)
{
	struct gate_request *request = op->request;
	const char *limit = gate_request_query(request, "limit");
	const char *token = gate_request_query(request, "nextToken");
	const char *order = gate_request_query(request, "order");
	const char *after = gate_request_query(request, "startedAfter");
	char *end = NULL;

	listing->limit = limit ? strtoul(limit, NULL, 10) : PAGE_DEFAULT;
	if (listing->limit < 1 || listing->limit > PAGE_DEFAULT) {
		op_fail(op, 400, "invalid_argument", "limit must be from 1 to %d", PAGE_DEFAULT);
		return false;
	}
	listing->ascending = order && strcmp(order, "asc") == 0;
	listing->template_name = text_from(gate_request_query(request, "template"));
	listing->started_after = after ? facts_time(text_from(after)) : 0;
	read_state(listing, gate_request_query(request, "state"));
	if (token) {
		listing->after_started = strtoll(token, &end, 10);
		if (*end != '-' || !sandbox_id_valid(text_from(end + 1))) {
			op_fail(op, 400, "invalid_argument", "nextToken is none of this list");
			return false;
		}
		memcpy(listing->after_id, end + 1, SANDBOX_ID_LETTERS);
	}
	if (listing->started_after < 0 ||
		!read_metadata(listing, gate_request_query(request, "metadata"))) {
		op_fail(op, 400, "invalid_argument", "startedAfter or metadata is malformed");
		return false;
	}
	listing->rows = calloc(listing->limit + 1, sizeof(struct json_object *));
	if (listing->rows == NULL) {
		op_no_memory(op);
		return false;
	}
	return true;
}

void sandboxes_list(struct op *op)
{
	struct listing *listing = op_state_new(op, sizeof(*listing), listing_free);

	if (listing == NULL)
		return;
	if (read_query(op, listing))
		ask_page(op, NULL);
}
