// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client. Snapshots are templates that cloisterd freezes of a
 * sandbox. A fork is made of such a template too, which is removed as soon as cloisterd allows it.
 */

#include "common/cleanup.h"
#include "gate/agent_link.h"
#include "gate/e2b/create.h"
#include "gate/e2b/own.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/snapshot_name.h"
#include "gate/request.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define FORKS_MAX 64

/* What a snapshot or a fork needs beside what own_find() found. */
struct freezing {
	char name[SNAPSHOT_NAME_BYTES + 1]; /* of the template */
	op_next *then;
	int64_t count;               /* forks */
	int64_t ms;                  /* of their leases */
	struct json_object *results; /* held */
	struct json_object *labels;  /* held: of the fork that is being made */
	char id[SANDBOX_ID_LETTERS + 1];
};

static struct freezing *freezing_of(struct op *op)
{
	return ((struct own *)op->state)->more;
}

static void freezing_free(void *more)
{
	struct freezing *freezing = more;

	json_object_put(freezing->results);
	json_object_put(freezing->labels);
	free(freezing);
}

/* Sessions, which cannot be copied, are not the client's rate. */
static bool is_busy(struct op *op, const struct cloister_message *reply)
{
	if (cloister_error(reply) != CLOISTER_ERROR_BUSY)
		return false;
	op_fail(op, 409, "failed_precondition", "%s", cloister_error_message(reply));
	return true;
}

static void opened(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	struct json_object *params = json_object_new_object();

	op->on_refusal = is_busy;
	json_put_text(params, "template", text_from(freezing_of(op)->name));
	op_ask(op, "workspace.freeze", params, freezing_of(op)->then);
}

static void freeze(struct op *op, struct text label, bool is_for_forks, op_next *then)
{
	struct own *own = op->state;
	struct freezing *freezing = freezing_of(op);
	struct snapshot_name parts = {own->facts.id, label,
		text_equal(json_text_of(own->row, "root"), TEXT_LITERAL("/")), is_for_forks};

	if (snapshot_name_make(&parts, freezing->name) < 0) {
		op_fail(op, 400, "invalid_argument",
			"The name of a snapshot has at most %d letters, digits, '.', '_' and '-'",
			SNAPSHOT_LABEL_BYTES);
		return;
	}
	freezing->then = then;
	op_ask(op, "workspace.open", facts_opening(&own->facts, own->facts.workspace), opened);
}

static bool begin_snapshot_op(struct op *op)
{
	struct own *own = op->state;

	own->more = calloc(1, sizeof(struct freezing));
	own->free_more = freezing_free;
	if (own->more == NULL)
		op_no_memory(op);
	return own->more != NULL;
}

/* Snapshots */

static struct json_object *snapshot_show(struct text name, struct text label)
{
	struct json_object *object = json_object_new_object();
	struct json_object *names = json_object_new_array();

	if (label.len > 0)
		json_object_array_add(
			names, json_object_new_string_len(label.data, (int)label.len));
	json_put_text(object, "snapshotID", name);
	json_object_object_add(object, "names", names);
	return object;
}

static void frozen(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	op_answer(op, 201,
		snapshot_show(text_from(freezing_of(op)->name), json_text_of(op->body, "name")));
}

void sandbox_snapshot(struct op *op)
{
	if (begin_snapshot_op(op))
		freeze(op, json_text_of(op->body, "name"), false, frozen);
}

static void snapshots_listed(struct op *op, const struct cloister_message *reply)
{
	struct text id = text_from(gate_request_query(op->request, "sandboxID"));
	struct text label = text_from(gate_request_query(op->request, "name"));
	struct json_object *rows = op_read(op, reply, "/templates"), *array;
	struct snapshot_name parts;

	if (rows == NULL)
		return;
	array = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct text name = json_text_of(json_object_array_get_idx(rows, i), "template");

		if (!snapshot_name_read(name, &parts) || parts.is_for_forks ||
			(id.len > 0 && !text_equal(id, parts.id)) ||
			(label.len > 0 && !text_equal(label, parts.label)))
			continue;
		json_object_array_add(array, snapshot_show(name, parts.label));
	}
	json_object_put(rows);
	op_answer(op, 200, array);
}

void snapshots_list(struct op *op)
{
	op_ask(op, "template.list", NULL, snapshots_listed);
}

/* Forks */

static void forks_done(struct op *op)
{
	op_answer(op, 201, json_object_get(freezing_of(op)->results));
}

static bool removal_refused(
	struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	forks_done(op);
	return true;
}

static void removed(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	forks_done(op);
}

/* In user mode a fork goes on needing its template; a later removal of forks takes it away. */
static void remove_template(struct op *op)
{
	struct json_object *params = json_object_new_object();

	op->on_refusal = removal_refused;
	json_put_text(params, "template", text_from(freezing_of(op)->name));
	op_ask(op, "template.remove", params, removed);
}

static void fork_next(struct op *op);

static void add_result(struct op *op, struct json_object *sandbox, unsigned code, const char *why)
{
	struct freezing *freezing = freezing_of(op);
	struct json_object *result = json_object_new_object(), *error;

	if (sandbox) {
		json_object_object_add(result, "sandbox", sandbox);
	} else {
		error = json_object_new_object();
		json_object_object_add(error, "code", json_object_new_int((int)code));
		json_put_text(error, "message", text_from(why));
		json_object_object_add(result, "error", error);
	}
	json_object_array_add(freezing->results, result);
	freezing->count--;
	fork_next(op);
}

static bool fork_refused(struct op *op, const struct cloister_message *reply)
{
	add_result(op, NULL, 503, cloister_error_message(reply));
	return true;
}

static void forked(struct op *op, const struct cloister_message *reply)
{
	struct freezing *freezing = freezing_of(op);
	struct json_object *sandbox = creation_admit(op, freezing->labels, freezing->ms,
		cloister_get_string(reply, "/workspaces/0", NULL));

	add_result(op, sandbox, 503, "The gate has no memory");
}

static void fork_next(struct op *op)
{
	const char *tenant = gate_request_identity(op->request)->tenant;
	struct freezing *freezing = freezing_of(op);
	struct own *own = op->state;
	struct json_object *params;

	if (freezing->count == 0) {
		remove_template(op);
		return;
	}
	json_object_put(freezing->labels);
	freezing->labels = NULL;
	if (sandbox_id_make(text_from(tenant), freezing->id) < 0 ||
		(freezing->labels = creation_copy_labels(own->facts.labels, freezing->id)) ==
			NULL) {
		op_no_memory(op);
		return;
	}
	params = json_object_new_object();
	op->on_refusal = fork_refused;
	json_put_text(params, "from", text_from(freezing->name));
	json_put_text(params, "prefix", text_from(freezing->id));
	json_object_object_add(params, "labels", json_object_get(freezing->labels));
	json_object_object_add(params, "lease", facts_lease(freezing->ms, own->facts.pauses));
	creation_put_kind(params, snapshot_is_managed(text_from(freezing->name)));
	creation_put_env(params, NULL);
	op_ask(op, "workspace.fork", params, forked);
}

static void frozen_for_forks(
	struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	fork_next(op);
}

void sandbox_fork(struct op *op)
{
	struct freezing *freezing;

	if (!begin_snapshot_op(op))
		return;
	freezing = freezing_of(op);
	freezing->count = json_number_of(op->body, "count", 1);
	freezing->ms = own_timeout(op);
	freezing->results = json_object_new_array();
	if (freezing->ms < 0)
		return;
	if (freezing->count < 1 || freezing->count > FORKS_MAX)
		op_fail(op, 400, "invalid_argument", "count must be from 1 to %d", FORKS_MAX);
	else
		freeze(op, (struct text){0}, true, frozen_for_forks);
}

/* Templates */

static void put_template(struct json_object *array, struct text name)
{
	struct json_object *object = json_object_new_object();
	struct json_object *aliases = json_object_new_array();

	json_object_array_add(aliases, json_object_new_string_len(name.data, (int)name.len));
	json_put_text(object, "templateID", name);
	json_put_text(object, "buildID", name);
	json_put_text(object, "buildStatus", TEXT_LITERAL("ready"));
	json_put_text(object, "envdVersion", TEXT_LITERAL("0.6.4"));
	json_object_object_add(object, "public", json_object_new_boolean(false));
	json_object_object_add(object, "names", json_object_get(aliases));
	json_object_object_add(object, "aliases", aliases);
	json_object_array_add(array, object);
}

static void templates_listed(struct op *op, const struct cloister_message *reply)
{
	struct json_object *rows = op_read(op, reply, "/templates"), *array;
	struct snapshot_name parts;

	if (rows == NULL)
		return;
	array = json_object_new_array();
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		struct text name = json_text_of(json_object_array_get_idx(rows, i), "template");

		if (!snapshot_name_read(name, &parts))
			put_template(array, name);
	}
	json_object_put(rows);
	op_answer(op, 200, array);
}

void templates_list(struct op *op)
{
	op_ask(op, "template.list", NULL, templates_listed);
}

static void alias_listed(struct op *op, const struct cloister_message *reply)
{
	struct text alias = text_from(gate_request_segment(op->request, "alias"));
	struct json_object *rows = op_read(op, reply, "/templates"), *answer = NULL;

	if (rows == NULL)
		return;
	for (size_t i = 0; i < json_object_array_length(rows); i++) {
		if (text_equal(alias, json_text_of(json_object_array_get_idx(rows, i), "template")))
			answer = json_object_new_object();
	}
	json_object_put(rows);
	if (answer == NULL) {
		op_fail(op, 404, "not_found", "There is no template of this name");
		return;
	}
	json_put_text(answer, "templateID", alias);
	json_object_object_add(answer, "public", json_object_new_boolean(false));
	op_answer(op, 200, answer);
}

void template_alias(struct op *op)
{
	op_ask(op, "template.list", NULL, alias_listed);
}

static void deleted(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	op_answer(op, 204, NULL);
}

void template_delete(struct op *op)
{
	struct json_object *params = json_object_new_object();

	json_put_text(params, "template", text_from(gate_request_segment(op->request, "id")));
	op_ask(op, "template.remove", params, deleted);
}

void template_build(struct gate_request *request)
{
	gate_answer_error(request, 400,
		"Templates are not built here: an administrator imports an image "
		"(cloisterctl template import or pull), and a snapshot of a sandbox is a template");
}
