// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. One sandbox of a key's tenant: find, renew, end. */

#include "gate/e2b/own.h"

#include "common/cleanup.h"
#include "common/keys/gate_key.h"
#include "gate/agent_link.h"
#include "gate/e2b/op.h"
#include "gate/e2b/sandbox.h"
#include "gate/gate.h"
#include "gate/gate_config.h"
#include "gate/keys.h"
#include "gate/request.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>

#define TIMEOUT_DEFAULT_S 15 /* as E2B's specification has it */
#define TIMEOUT_MAX_S     (30LL * 24 * 3600)

static void answer_unknown(struct op *op)
{
	op_fail(op, 404, "not_found", "Sandbox \"%s\" does not exist",
		gate_request_segment(op->request, "id"));
}

static void begin_own(struct op *op, const struct gate_identity *identity)
{
	op_hold_body(op);
	if (op_open_link(op, identity))
		op_collect(op);
}

void own_begin(struct gate_request *request)
{
	struct op *op = op_new(request, OP_REST);

	if (op)
		begin_own(op, gate_request_identity(request));
}

void own_begin_one(struct gate_request *request)
{
	struct gate_identity identity = *gate_request_identity(request);
	struct text id = text_from(gate_request_segment(request, "id"));
	char workspace[SANDBOX_ID_LETTERS + 3];
	struct op *op = op_new(request, OP_REST);

	if (op == NULL)
		return;
	if (!sandbox_id_valid(id)) {
		answer_unknown(op);
		return;
	}
	facts_workspace(id, workspace);
	if (identity.workspace && strcmp(identity.workspace, workspace) != 0) {
		answer_unknown(op);
		return;
	}
	identity.workspace = workspace;
	begin_own(op, &identity);
}

struct facts *own_facts(struct op *op)
{
	return &((struct own *)op->state)->facts;
}

static void own_free(void *state)
{
	struct own *own = state;

	if (own->free_more)
		own->free_more(own->more);
	json_object_put(own->row);
	free(own);
}

static void found(struct op *op, const struct cloister_message *reply)
{
	struct text id = text_from(gate_request_segment(op->request, "id"));
	struct json_object *rows = op_read(op, reply, "/workspaces");
	struct own *own = op->state;

	if (rows == NULL)
		return;
	own->row = json_object_get(facts_row(rows, id));
	json_object_put(rows);
	if (own->row && facts_read(own->row, facts_now(), &own->facts) &&
		own->facts.state != FACTS_KILLED)
		op_act(op);
	else
		answer_unknown(op);
}

void own_find(struct op *op)
{
	struct text id = text_from(gate_request_segment(op->request, "id"));
	struct json_object *params, *labels;
	struct own *own;

	if (!sandbox_id_valid(id)) {
		answer_unknown(op);
		return;
	}
	own = op_state_new(op, sizeof(*own), own_free);
	if (own == NULL)
		return;
	params = json_object_new_object();
	labels = json_object_new_object();
	json_put_text(labels, FACTS_ID, id);
	json_object_object_add(params, "labels", labels);
	json_object_object_add(params, "limit", json_object_new_int(1));
	op_ask(op, "workspace.list", params, found);
}

/* Changes the lease of the found sandbox to end in @ms. */
static void own_lease(struct op *op, int64_t ms, bool pauses, op_next *next)
{
	struct json_object *params = json_object_new_object();

	json_put_text(params, "workspace", own_facts(op)->workspace);
	json_object_object_add(params, "lease", facts_lease(ms, pauses));
	op_ask(op, "workspace.update", params, next);
}

int64_t own_timeout(struct op *op)
{
	int64_t seconds = json_number_of(op->body, "timeout", TIMEOUT_DEFAULT_S);

	if (seconds < 0 || seconds > TIMEOUT_MAX_S) {
		op_fail(op, 400, "invalid_argument",
			"timeout must be a number of seconds from 0 to %lld", TIMEOUT_MAX_S);
		return -1;
	}
	return seconds > 0 ? seconds * 1000 : FACTS_END_MS;
}

static void put_token(struct json_object *object, const char *name, const struct gate_key *key,
	enum sandbox_token kind, const struct facts *facts)
{
	char token[SANDBOX_TOKEN_LETTERS + 1];

	sandbox_token_make((struct sandbox_key){key->id, key->hash}, kind, facts->id,
		facts->generation, token);
	json_put_text(object, name, text_from(token));
}

/* Names of ports are reached at the port at which the client reached the gate. */
static void put_domain(struct op *op, struct json_object *object)
{
	const char *domain = gate_request_gate(op->request)->config->domain;
	const char *host = gate_request_header(op->request, "Host");
	const char *port = host ? strrchr(host, ':') : NULL;
	char text[512];

	if (domain == NULL)
		return;
	snprintf(text, sizeof(text), "%s%s", domain,
		port && strspn(port + 1, "0123456789") == strlen(port + 1) ? port : "");
	json_put_text(object, "domain", text_from(text));
}

struct json_object *own_admission(struct op *op, const struct facts *facts)
{
	struct gate *gate = gate_request_gate(op->request);
	const struct gate_identity *identity = gate_request_identity(op->request);
	const struct gate_key *key = gate_keys_find(gate->keys, identity->key);
	struct json_object *object = facts_show(facts, false);

	if (key && !facts->open)
		put_token(object, "envdAccessToken", key, SANDBOX_TOKEN_ACCESS, facts);
	if (key && facts->private_ports)
		put_token(object, "trafficAccessToken", key, SANDBOX_TOKEN_TRAFFIC, facts);
	put_domain(op, object);
	return object;
}

/* Info */

void sandbox_info(struct op *op)
{
	op_answer(op, 200, facts_show(own_facts(op), true));
}

/* Connect and resume */

static void connected(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	struct facts *facts = own_facts(op);
	bool was_paused = facts->state == FACTS_PAUSED;
	int64_t ms = own_timeout(op);

	if (ms < 0)
		return;
	facts->state = FACTS_RUNNING;
	facts->ends_ms = facts_now() + ms;
	if (was_paused)
		sandbox_forget_id(facts->id);
	else
		sandbox_renew(facts->id, facts->ends_ms);
	op_answer(op, was_paused ? 201 : 200, own_admission(op, facts));
}

/* The lease of one that runs is only ever made longer. */
void sandbox_connect(struct op *op)
{
	struct facts *facts = own_facts(op);
	int64_t ms = own_timeout(op);

	if (ms < 0)
		return;
	if (facts->state == FACTS_RUNNING && facts->ends_ms >= facts_now() + ms)
		op_answer(op, 200, own_admission(op, facts));
	else
		own_lease(op, ms, facts->pauses, connected);
}

void sandbox_resume(struct op *op)
{
	if (own_facts(op)->state == FACTS_RUNNING)
		op_fail(op, 409, "failed_precondition", "The sandbox is running already");
	else
		sandbox_connect(op);
}

/* Timeout */

static void renewed(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	int64_t ms = own_timeout(op);

	if (ms < 0)
		return;
	sandbox_renew(own_facts(op)->id, facts_now() + ms);
	op_answer(op, 204, NULL);
}

void sandbox_timeout(struct op *op)
{
	int64_t ms = own_timeout(op);

	if (ms < 0)
		return;
	if (own_facts(op)->state != FACTS_RUNNING)
		answer_unknown(op);
	else
		own_lease(op, ms, own_facts(op)->pauses, renewed);
}

/* Kill and pause: the lease ends now, and cloisterd does what belongs to its end. */

static void ended(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	sandbox_forget_id(own_facts(op)->id);
	op_answer(op, 204, NULL);
}

void sandbox_kill(struct op *op)
{
	own_lease(op, FACTS_END_MS, false, ended);
}

static void paused(struct op *op, const struct cloister_message *reply)
{
	gate_answer_header(op->request, "Cloister-Note",
		"The processes of the sandbox have ended; its files are kept");
	ended(op, reply);
}

void sandbox_pause(struct op *op)
{
	if (own_facts(op)->state == FACTS_PAUSED)
		op_fail(op, 409, "failed_precondition", "The sandbox is paused already");
	else
		own_lease(op, FACTS_END_MS, true, paused);
}

/* Metrics: one sample, of now, if that is what the client asks for. */

static struct json_object *sample(int64_t now, int64_t disk)
{
	struct json_object *object = json_object_new_object();
	char text[32];

	facts_time_write(now, text);
	json_put_text(object, "timestamp", text_from(text));
	json_object_object_add(object, "timestampUnix", json_object_new_int64(now / 1000));
	json_object_object_add(object, "cpuCount", json_object_new_int(1));
	json_object_object_add(object, "cpuUsedPct", json_object_new_double(0));
	json_object_object_add(object, "memUsed", json_object_new_int64(0));
	json_object_object_add(object, "memTotal", json_object_new_int64(0));
	json_object_object_add(object, "memCache", json_object_new_int64(0));
	json_object_object_add(object, "diskUsed", json_object_new_int64(disk));
	json_object_object_add(object, "diskTotal", json_object_new_int64(0));
	return object;
}

static int64_t query_number(struct gate_request *request, const char *name, int64_t otherwise)
{
	const char *value = gate_request_query(request, name);

	return value ? strtoll(value, NULL, 10) : otherwise;
}

void sandbox_metrics(struct op *op)
{
	struct own *own = op->state;
	struct json_object *samples = json_object_new_array();
	int64_t now = facts_now(), disk = json_number_of(own->row, "bytes", 0);

	if (query_number(op->request, "start", 0) <= now / 1000 &&
		query_number(op->request, "end", INT64_MAX) >= now / 1000 - 1)
		json_object_array_add(samples, sample(now, disk));
	op_answer(op, 200, samples);
}

/* The network of a sandbox: E2B's rules as the rules of workspace.open, which only ever narrow. */

static bool is_all(struct json_object *rule)
{
	const char *text = json_object_get_string(rule);

	return strcmp(text, "0.0.0.0/0") == 0 || strcmp(text, "::/0") == 0;
}

static bool is_empty(struct json_object *member)
{
	return member == NULL ||
	       (json_object_is_type(member, json_type_array) &&
		       json_object_array_length(member) == 0) ||
	       (json_object_is_type(member, json_type_object) &&
		       json_object_object_length(member) == 0);
}

static int refuse_network_rule(struct op *op, const char *rule, const char *why)
{
	op_fail(op, 400, "invalid_argument", "%s: %s", rule, why);
	return -EINVAL;
}

/* What is denied but for all addresses cannot be said by rules that allow. */
static int read_denied(struct op *op, struct json_object *denied, bool *ret_all)
{
	*ret_all = false;
	if (denied == NULL)
		return 0;
	if (!json_object_is_type(denied, json_type_array))
		return refuse_network_rule(op, "denyOut", "must be an array of strings");
	for (size_t i = 0; i < json_object_array_length(denied); i++) {
		struct json_object *rule = json_object_array_get_idx(denied, i);

		if (!json_object_is_type(rule, json_type_string))
			return refuse_network_rule(op, "denyOut", "must be an array of strings");
		if (!is_all(rule))
			return refuse_network_rule(op, json_object_get_string(rule),
				"a rule of denyOut can only be 0.0.0.0/0, all addresses: name what "
				"is allowed in allowOut");
		*ret_all = true;
	}
	return 0;
}

int network_read(struct op *op, struct json_object *network, struct json_object **ret_network)
{
	bool has_internet = json_bool_of(op->body, "allow_internet_access", true);
	static const char *const unknown[] = {"rules", "egressProxy"};
	struct json_object *allowed = json_member_of(network, "allowOut"), *rules;
	bool denies_all = false;

	*ret_network = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		if (!is_empty(json_member_of(network, unknown[i])))
			return refuse_network_rule(op, unknown[i],
				"does not exist here: secrets and proxies of the network are the "
				"administrator's (egress_secret, egress_upstream)");
	}
	if (read_denied(op, json_member_of(network, "denyOut"), &denies_all) < 0)
		return -EINVAL;
	if (has_internet && !denies_all)
		return 0;
	if (!is_empty(allowed) && !json_object_is_type(allowed, json_type_array))
		return refuse_network_rule(op, "allowOut", "must be an array of strings");
	rules = json_object_new_object();
	json_object_object_add(rules, "allow",
		allowed && has_internet ? json_object_get(allowed) : json_object_new_array());
	*ret_network = rules;
	return 0;
}

static void updated(struct op *op, __attribute__((unused)) const struct cloister_message *reply)
{
	op_answer(op, 204, NULL);
}

void sandbox_network(struct op *op)
{
	struct json_object *network, *params;

	if (network_read(op, op->body, &network) < 0)
		return;
	if (network == NULL) {
		op_answer(op, 204, NULL);
		return;
	}
	params = json_object_new_object();
	json_put_text(params, "workspace", own_facts(op)->workspace);
	json_object_object_add(params, "network", network);
	op_ask(op, "workspace.update", params, updated);
}
