// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client: filesystem.Filesystem. */

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "gate/e2b/data.h"
#include "gate/e2b/entry.h"
#include "gate/e2b/outside.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/request.h"

#include <errno.h>
#include <event2/event.h>
#include <json-c/json.h>
#include <stdlib.h>

/* Returns the params for the path that the body has as @name, or NULL: it has been answered. */
static struct json_object *params_of(struct op *op, const char *name)
{
	struct json_object *params;
	char buffer[64], path[4097];

	if (!data_user_fits(op, data_user(op, buffer)) ||
		!data_path(op, json_text_of(op->body, name), path))
		return NULL;
	params = json_object_new_object();
	json_put_text(params, "path", text_from(path));
	return params;
}

static void put_flag(struct json_object *params, const char *name, bool value)
{
	json_object_object_add(params, name, json_object_new_boolean(value));
}

static void answer_entry(struct op *op, const struct cloister_message *reply)
{
	struct json_object *node = op_read(op, reply, "/entry"), *answer;

	if (node == NULL)
		return;
	answer = json_object_new_object();
	json_object_object_add(answer, "entry", entry_show(node, sandbox_root(op->sandbox)));
	json_object_put(node);
	op_answer(op, 200, answer);
}

static bool is_outside(const struct op *op, struct json_object *params)
{
	return outside_is(op, json_text_of(params, "path").data);
}

/* Runs @line in place of a method with @params, which are taken. */
static void run_line(
	struct op *op, struct json_object *params, struct json_object *line, op_next *next)
{
	json_object_put(params);
	outside_run(op, line, next);
}

static void answer_outside(struct op *op, const struct cloister_message *reply)
{
	struct json_object *entries = outside_entries(reply), *answer = json_object_new_object();

	json_object_object_add(
		answer, "entry", entry_show(json_object_array_get_idx(entries, 0), "/"));
	json_object_put(entries);
	op_answer(op, 200, answer);
}

/* Stat */

void filesystem_stat(struct op *op)
{
	struct json_object *params = params_of(op, "path");

	if (params == NULL)
		return;
	if (is_outside(op, params)) {
		run_line(op, params, outside_list(json_text_of(params, "path").data, 0),
			answer_outside);
		return;
	}
	put_flag(params, "follow", false);
	op->on_refusal = outside_is_missing;
	op_ask(op, "file.stat", params, answer_entry);
}

/* ListDir: a long listing is written in slices, so that other requests do not wait for all of it.
 */

#define SLICE 128 /* entries */

struct listing {
	struct json_object *nodes; /* held */
	size_t at;
	struct byte_queue text;
	struct event *next;
};

static void listing_free(void *state)
{
	struct listing *listing = state;

	json_object_put(listing->nodes);
	byte_queue_free(&listing->text);
	if (listing->next)
		event_free(listing->next);
	free(listing);
}

static int put_entry(struct op *op, struct json_object *node)
{
	struct listing *listing = op->state;
	struct json_object *entry = entry_show(node, sandbox_root(op->sandbox));
	size_t len = 0;
	const char *text = json_object_to_json_string_length(entry, JSON_C_TO_STRING_PLAIN, &len);
	int r = text ? byte_queue_append(&listing->text, ",", listing->at > 0) : -ENOMEM;

	if (r == 0)
		r = byte_queue_append(&listing->text, text, len);
	json_object_put(entry);
	return r;
}

static void list_slice(__attribute__((unused)) evutil_socket_t fd,
	__attribute__((unused)) short events, void *context)
{
	static const struct timeval now = {0};
	struct op *op = context;
	struct listing *listing = op->state;
	size_t n = json_object_array_length(listing->nodes);
	size_t end = n - listing->at > SLICE ? listing->at + SLICE : n;
	int r = 0;

	for (; op->request && r == 0 && listing->at < end; listing->at++)
		r = put_entry(op, json_object_array_get_idx(listing->nodes, listing->at));
	if (op->request && r == 0 && end == n)
		r = byte_queue_append(&listing->text, "]}", 2);
	if (op->request && r == 0 && end < n)
		r = evtimer_add(listing->next, &now);
	if (op->request && r < 0)
		op_no_memory(op);
	else if (op->request && end == n)
		op_answer_text(op, 200, byte_queue_peek(&listing->text));
	if (!op->request || r < 0 || end == n)
		op_leave(op);
}

static void answer_list(struct op *op, const struct cloister_message *reply)
{
	static const char begin[] = "{\"entries\":[";
	struct listing *listing;
	bool truncated = false;

	(void)cloister_get_bool(reply, "/truncated", &truncated);
	if (truncated) {
		op_fail(op, 400, "out_of_range",
			"The directory has more entries than a listing may have: list it with a "
			"smaller depth, or with a command");
		return;
	}
	listing = op_state_new(op, sizeof(*listing), listing_free);
	if (listing == NULL)
		return;
	listing->nodes = op_read(op, reply, "/entries");
	if (listing->nodes == NULL)
		return;
	listing->next = evtimer_new(gate_request_gate(op->request)->base, list_slice, op);
	if (listing->next == NULL ||
		byte_queue_append(&listing->text, begin, sizeof(begin) - 1) < 0) {
		op_no_memory(op);
		return;
	}
	op_stay(op);
	list_slice(-1, 0, op);
}

static void list_outside(struct op *op, const struct cloister_message *reply)
{
	struct json_object *nodes = outside_entries(reply), *answer = json_object_new_object();
	struct json_object *entries = json_object_new_array();

	for (size_t i = 0; i < json_object_array_length(nodes); i++)
		json_object_array_add(
			entries, entry_show(json_object_array_get_idx(nodes, i), "/"));
	json_object_put(nodes);
	json_object_object_add(answer, "entries", entries);
	op_answer(op, 200, answer);
}

void filesystem_list(struct op *op)
{
	struct json_object *params = params_of(op, "path");
	int64_t depth = json_number_of(op->body, "depth", 1);

	if (params == NULL)
		return;
	depth = depth > 0 ? depth : 1;
	if (is_outside(op, params)) {
		run_line(op, params, outside_list(json_text_of(params, "path").data, depth),
			list_outside);
		return;
	}
	json_object_object_add(params, "depth", json_object_new_int64(depth));
	put_flag(params, "attributes", true);
	op->on_refusal = outside_is_missing;
	op_ask(op, "file.list", params, answer_list);
}

/* MakeDir */

static void answer_made(struct op *op, const struct cloister_message *reply)
{
	bool created = true;

	(void)cloister_get_bool(reply, "/created", &created);
	if (created)
		answer_entry(op, reply);
	else
		op_fail(op, 409, "already_exists", "The directory exists already");
}

void filesystem_make_dir(struct op *op)
{
	struct json_object *params = params_of(op, "path");

	if (params == NULL)
		return;
	if (is_outside(op, params)) {
		run_line(op, params, outside_make(json_text_of(params, "path").data),
			answer_outside);
		return;
	}
	op->on_refusal = NULL;
	op_ask(op, "file.make_directory", params, answer_made);
}

/* Move */

/* The answer to a move has no attributes. */
static void stat_moved(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	struct json_object *params = params_of(op, "destination");

	if (params == NULL)
		return;
	put_flag(params, "follow", false);
	op_ask(op, "file.stat", params, answer_entry);
}

void filesystem_move(struct op *op)
{
	struct json_object *params = params_of(op, "source");
	char path[4097];

	if (params == NULL)
		return;
	if (!data_path(op, json_text_of(op->body, "destination"), path)) {
		json_object_put(params);
		return;
	}
	if (is_outside(op, params) || outside_is(op, path)) {
		run_line(op, params, outside_move(json_text_of(params, "path").data, path),
			answer_outside);
		return;
	}
	json_put_text(params, "to", text_from(path));
	put_flag(params, "replace", true);
	op_ask(op, "file.move", params, stat_moved);
}

/* Remove */

static void answer_removed(
	struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	op_answer(op, 200, json_object_new_object());
}

/* What is not there has been removed. */
static bool missing_is_removed(struct op *op, const struct cloister_message *reply)
{
	if (cloister_error(reply) != CLOISTER_ERROR_NOT_FOUND)
		return false;
	op_answer(op, 200, json_object_new_object());
	return true;
}

void filesystem_remove(struct op *op)
{
	struct json_object *params = params_of(op, "path");

	if (params == NULL)
		return;
	if (is_outside(op, params)) {
		run_line(op, params, outside_remove(json_text_of(params, "path").data),
			answer_removed);
		return;
	}
	put_flag(params, "recursive", true);
	op->on_refusal = missing_is_removed;
	op_ask(op, "file.remove", params, answer_removed);
}
