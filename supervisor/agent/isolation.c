// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What a client asks for is only ever less than what the configuration gives. */
#include "supervisor/agent/isolation.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/config/config_egress.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/features.h"
#include "supervisor/host/id_range.h"
#include "supervisor/workspace/workspace.h"

#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>

static void put(struct json_text *json, const char *key, const char *value)
{
	json_text_key(json, key);
	json_text_string(json, text_from(value));
}

/* Writes which kernel mechanism enforces each limit; "none": nothing does. */
static void put_limits(struct json_text *json, const struct cgroup *cgroup)
{
	json_text_key(json, "cgroup");
	json_text_bool(json, !cgroup->missing);
	if (cgroup->missing)
		put(json, "cgroup_missing", cgroup->missing);
	json_text_key(json, "limits");
	json_text_object_begin(json);
	put(json, "memory", cgroup_keeper_name(cgroup_keeper_of_memory(cgroup)));
	put(json, "processes", cgroup_keeper_name(cgroup_keeper_of_processes(cgroup)));
	put(json, "cpu", cgroup_keeper_name(cgroup_keeper_of_cpu(cgroup)));
	put(json, "io", cgroup_keeper_name(cgroup_keeper_of_io(cgroup)));
	json_text_object_end(json);
}

/* Writes the rules by which cloister-egress connects the workspace, or "none". */
static void put_network(struct json_text *json, const struct workspace *workspace)
{
	const struct string_list *rules = &workspace_tenant(workspace)->egress_allow;
	struct text narrowed = text_from(workspace_narrowed(workspace));

	if (!workspace_has_network(workspace)) {
		put(json, "network", "none");
		return;
	}
	json_text_key(json, "network");
	json_text_object_begin(json);
	json_text_key(json, "egress");
	json_text_array_begin(json);
	for (size_t i = 0; !narrowed.data && i < rules->count; i++)
		json_text_string(json, text_from(rules->strings[i]));
	while (narrowed.len > 0)
		json_text_string(json, text_take(&narrowed, ' '));
	json_text_array_end(json);
	json_text_object_end(json);
}

void isolation_write(
	struct json_text *json, const struct cgroup *cgroup, const struct workspace *workspace)
{
	static const char *const namespaces[] = {
		"user", "mount", "pid", "network", "ipc", "uts", "cgroup"};

	json_text_key(json, "isolation");
	json_text_object_begin(json);
	put(json, "mode", id_range() ? "system" : "user");
	json_text_key(json, "namespaces");
	json_text_array_begin(json);
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		json_text_string(json, text_from(namespaces[i]));
	json_text_array_end(json);
	put_network(json, workspace);
	json_text_key(json, "landlock");
	json_text_bool(json, feature_is_present("landlock"));
	/* Always true: without the filter a worker does not start. */
	json_text_key(json, "command_filter");
	json_text_bool(json, true);
	put_limits(json, cgroup);
	json_text_object_end(json);
}

static enum tool_error wrong_network(struct refusal *ret_refusal)
{
	return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
		"network must be {\"allow\": [...]}, with rules as in egress_allow, such as "
		"\"github.com:443\"");
}

/* Appends one rule to @allow at @end, where there is room. Returns the new end, or NULL. */
static char *add_rule(
	const char *allow, char *end, struct json_object *rule, char *why, size_t size)
{
	struct text text = json_object_is_type(rule, json_type_string)
				   ? (struct text){json_object_get_string(rule),
					     (size_t)json_object_get_string_len(rule)}
				   : (struct text){NULL, 0};

	/* A blank would make two rules of one. */
	if (text.len == 0 || text_has_nul(text) || strcspn(text.data, " ") < text.len ||
		!config_egress_check(EGRESS_WORDS_ALLOW, text.data, why, size))
		return NULL;
	return stpcpy(stpcpy(end, end > allow ? " " : ""), text.data);
}

enum tool_error isolation_read_allow(
	struct json_object *params, char **ret_allow, struct refusal *ret_refusal)
{
	_cleanup_free_ char *allow = NULL;
	struct json_object *network = NULL, *list = NULL;
	char *end, why[LIMIT_EGRESS_REASON_BYTES] = "";
	size_t size = 1;

	if (!json_object_object_get_ex(params, "network", &network))
		return TOOL_OK;
	if (!json_object_is_type(network, json_type_object) ||
		!json_object_object_get_ex(network, "allow", &list) ||
		json_object_object_length(network) != 1 ||
		!json_object_is_type(list, json_type_array))
		return wrong_network(ret_refusal);
	for (size_t i = 0; i < json_object_array_length(list); i++)
		size += (size_t)json_object_get_string_len(json_object_array_get_idx(list, i)) + 1;
	if (size > LIMIT_EGRESS_NARROWED_BYTES)
		return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS,
			"network.allow has more than %llu bytes", LIMIT_EGRESS_NARROWED_BYTES);
	allow = calloc(1, size);
	if (!allow)
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	end = allow;
	for (size_t i = 0; end && i < json_object_array_length(list); i++)
		end = add_rule(allow, end, json_object_array_get_idx(list, i), why, sizeof(why));
	if (!end && *why)
		return refusal_format(
			ret_refusal, TOOL_INVALID_ARGUMENTS, "network.allow: %s", why);
	if (!end)
		return wrong_network(ret_refusal);
	*ret_allow = TAKE_PTR(allow);
	return TOOL_OK;
}
