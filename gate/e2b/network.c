// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/network.h"

#include "common/cleanup.h"
#include "gate/agent_link.h"
#include "gate/e2b/op.h"
#include "gate/e2b/own.h"

#include <errno.h>
#include <json-c/json.h>

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
				"is "
				"allowed in allowOut");
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
