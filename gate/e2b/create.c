// SPDX-License-Identifier: Apache-2.0
/*
 * In cloister-gate, which trusts no client. Makes sandboxes: of the tenant's template, or, for
 * "base" where the tenant has no such template, an empty workspace.
 */

#include "gate/e2b/create.h"
#include "common/cleanup.h"
#include "common/limits.h"
#include "gate/agent_link.h"
#include "gate/e2b/own.h"
#include "gate/e2b/sandbox.h"
#include "gate/e2b/snapshot_name.h"
#include "gate/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define HOME "/home/user"
#define BASE "base"

struct creation {
	struct json_object *labels, *network; /* held */
	char id[SANDBOX_ID_LETTERS + 1];
	struct text template_name; /* of the body */
	int64_t ms;
	bool pauses;
};

static void creation_free(void *state)
{
	struct creation *creation = state;

	json_object_put(creation->labels);
	json_object_put(creation->network);
	free(creation);
}

/* What E2B has and cloister has not is refused by name, never left out. */
static bool refuse_unknown(struct op *op)
{
	static const struct {
		const char *name, *why;
	} missing[] = {
		{"volumeMounts",
			"Volumes do not exist here: use a template, or files of the sandbox"},
		{"iam", "Tokens of workloads do not exist here"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		struct json_object *member = json_member_of(op->body, missing[i].name);
		bool empty = member == NULL || (json_object_is_type(member, json_type_array) &&
						       json_object_array_length(member) == 0);

		if (!empty) {
			op_fail(op, 400, "invalid_argument", "%s", missing[i].why);
			return true;
		}
	}
	return false;
}

static int make_generation(char ret_text[static 17])
{
	uint64_t bytes;

	if (getrandom(&bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	snprintf(ret_text, 17, "%016llx", (unsigned long long)bytes);
	return 0;
}

/* What each sandbox has of its own. */
static int put_own_labels(struct json_object *labels, const char *id)
{
	char generation[17], started[24];

	if (make_generation(generation) < 0)
		return -EIO;
	snprintf(started, sizeof(started), "%lld", (long long)facts_now());
	json_put_text(labels, FACTS_ID, text_from(id));
	json_put_text(labels, FACTS_GENERATION, text_from(generation));
	json_put_text(labels, FACTS_STARTED, text_from(started));
	return 0;
}

struct json_object *creation_copy_labels(struct json_object *labels, const char *id)
{
	struct json_object *copy = NULL;

	if (json_object_deep_copy(labels, &copy, NULL) < 0)
		return NULL;
	if (put_own_labels(copy, id) < 0) {
		json_object_put(copy);
		return NULL;
	}
	return copy;
}

static bool put_labels(struct op *op, struct creation *creation)
{
	struct json_object *metadata = json_member_of(op->body, "metadata");
	struct json_object *network = json_member_of(op->body, "network");
	struct json_object *labels = creation->labels = json_object_new_object();
	char name[LIMIT_LABEL_NAME_BYTES + 1];

	if (put_own_labels(labels, creation->id) < 0) {
		op_no_memory(op);
		return false;
	}
	json_put_text(labels, FACTS_TEMPLATE, creation->template_name);
	json_put_text(labels, FACTS_ON_TIMEOUT, text_from(creation->pauses ? "pause" : "kill"));
	if (!json_bool_of(op->body, "secure", false))
		json_put_text(labels, FACTS_OPEN, TEXT_LITERAL("yes"));
	if (!json_bool_of(network, "allowPublicTraffic", true))
		json_put_text(labels, FACTS_PRIVATE, TEXT_LITERAL("yes"));
	if (json_bool_of(json_member_of(op->body, "autoResume"), "enabled", false))
		json_put_text(labels, FACTS_RESUME, TEXT_LITERAL("yes"));
	if (!json_bool_of(op->body, "allow_internet_access", true))
		json_put_text(labels, FACTS_INTERNET, TEXT_LITERAL("no"));
	if (network)
		json_put_text(labels, FACTS_NETWORK,
			text_from(json_object_to_json_string_ext(network, JSON_C_TO_STRING_PLAIN)));
	if (!json_object_is_type(metadata, json_type_object))
		return true;
	json_object_object_foreach (metadata, key, value) {
		if (!json_object_is_type(value, json_type_string) ||
			json_object_get_string_len(value) > LIMIT_LABEL_VALUE_BYTES ||
			(size_t)snprintf(name, sizeof(name), FACTS_METADATA "%s", key) >=
				sizeof(name)) {
			op_fail(op, 400, "invalid_argument",
				"metadata must be an object of strings: names of at most %zu "
				"bytes, values of at most %d bytes",
				sizeof(name) - sizeof(FACTS_METADATA), LIMIT_LABEL_VALUE_BYTES);
			return false;
		}
		json_object_object_add(labels, name, json_object_get(value));
	}
	return true;
}

void creation_put_env(struct json_object *params, struct json_object *given)
{
	struct json_object *env = json_object_new_object();

	json_put_text(env, "HOME", TEXT_LITERAL(HOME));
	json_put_text(env, "USER", TEXT_LITERAL("user"));
	if (json_object_is_type(given, json_type_object)) {
		json_object_object_foreach (given, name, value)
			json_object_object_add(env, name, json_object_get(value));
	}
	json_object_object_add(params, "env", env);
}

void creation_put_kind(struct json_object *params, bool is_managed)
{
	json_put_text(params, "kind", text_from(is_managed ? "managed" : "rootfs"));
	if (is_managed)
		json_put_text(params, "shown_at", TEXT_LITERAL(HOME));
}

static void put_common(struct op *op, struct json_object *params)
{
	struct creation *creation = op->state;

	json_object_object_add(params, "labels", json_object_get(creation->labels));
	json_object_object_add(params, "lease", facts_lease(creation->ms, creation->pauses));
	creation_put_env(params, json_member_of(op->body, "envVars"));
}

struct json_object *creation_admit(
	struct op *op, struct json_object *labels, int64_t ms, const char *workspace)
{
	struct json_object *row = json_object_new_object(), *lease = json_object_new_object();
	struct json_object *admission = NULL;
	char ends[32];
	struct facts facts;

	facts_time_write(facts_now() + ms, ends);
	json_put_text(lease, "expires_at", text_from(ends));
	json_put_text(row, "workspace", text_from(workspace));
	json_object_object_add(row, "labels", json_object_get(labels));
	json_object_object_add(row, "lease", lease);
	sandbox_warm(
		gate_request_gate(op->request), gate_request_identity(op->request)->tenant, row);
	if (facts_read(row, 0, &facts))
		admission = own_admission(op, &facts);
	json_object_put(row);
	return admission;
}

static void answer_made(struct op *op, const char *workspace)
{
	struct creation *creation = op->state;
	struct json_object *admission =
		creation_admit(op, creation->labels, creation->ms, workspace);

	if (admission)
		op_answer(op, 201, admission);
	else
		op_no_memory(op);
}

static void opened(struct op *op, const struct cloister_message *reply)
{
	answer_made(op, cloister_get_string(reply, "/workspace", NULL));
}

static void forked(struct op *op, const struct cloister_message *reply)
{
	answer_made(op, cloister_get_string(reply, "/workspaces/0", NULL));
}

static void open_empty(struct op *op)
{
	struct creation *creation = op->state;
	struct json_object *params = json_object_new_object();
	char workspace[SANDBOX_ID_LETTERS + 3];

	op->on_refusal = NULL;
	put_common(op, params);
	facts_workspace(text_from(creation->id), workspace);
	json_put_text(params, "workspace", text_from(workspace));
	json_put_text(params, "shown_at", TEXT_LITERAL(HOME));
	if (creation->network)
		json_object_object_add(params, "network", json_object_get(creation->network));
	op_ask(op, "workspace.open", params, opened);
}

static bool template_missing(struct op *op, const struct cloister_message *reply)
{
	struct creation *creation = op->state;

	if (cloister_error(reply) != CLOISTER_ERROR_NOT_FOUND)
		return false;
	if (text_equal(creation->template_name, TEXT_LITERAL(BASE)))
		open_empty(op);
	else
		op_fail(op, 404, "not_found",
			"Template \"%.*s\" does not exist: administrators import images, and "
			"snapshots are templates",
			(int)creation->template_name.len, creation->template_name.data);
	return true;
}

static void fork_template(struct op *op)
{
	struct creation *creation = op->state;
	struct json_object *params = json_object_new_object();

	op->on_refusal = template_missing;
	put_common(op, params);
	json_put_text(params, "from", creation->template_name);
	json_put_text(params, "prefix", text_from(creation->id));
	creation_put_kind(params, snapshot_is_managed(creation->template_name));
	op_ask(op, "workspace.fork", params, forked);
}

void sandbox_create(struct op *op)
{
	const struct gate_identity *identity = gate_request_identity(op->request);
	struct creation *creation = op_state_new(op, sizeof(*creation), creation_free);

	if (creation == NULL)
		return;
	creation->template_name = json_text_of(op->body, "templateID");
	creation->pauses = json_bool_of(op->body, "autoPause", false);
	creation->ms = own_timeout(op);
	if (creation->ms < 0 || refuse_unknown(op))
		return;
	if (sandbox_id_make(text_from(identity->tenant), creation->id) < 0) {
		op_no_memory(op);
		return;
	}
	if (!put_labels(op, creation) ||
		network_read(op, json_member_of(op->body, "network"), &creation->network) < 0)
		return;
	if (creation->network)
		json_put_text(creation->labels, FACTS_ALLOW,
			text_from(json_object_to_json_string_ext(
				creation->network, JSON_C_TO_STRING_PLAIN)));
	fork_template(op);
}
