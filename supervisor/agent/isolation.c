// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. What a client asks for is only ever less than what the configuration gives. */
#include "supervisor/agent/isolation.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/utf8.h"
#include "supervisor/base/json_text.h"
#include "supervisor/base/refusal.h"
#include "supervisor/config/config_egress.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/features.h"
#include "supervisor/host/id_range.h"
#include "supervisor/workspace/workspace.h"
#include "supervisor/workspace/workspace_disk.h"

#include <json-c/json_object.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_BYTES 64 /* of a rule in a refusal */

/* Writes which kernel mechanism enforces each limit; "none": nothing does. */
static void put_limits(
	struct json_text *json, const struct cgroup *cgroup, const struct workspace *workspace)
{
	const struct disk_state disk = workspace_disk(workspace);

	json_text_put_bool(json, "cgroup", !cgroup->missing);
	if (cgroup->missing)
		json_text_put(json, "cgroup_missing", cgroup->missing);
	json_text_put_object(json, "limits");
	json_text_put(json, "memory", cgroup_enforcer_name(cgroup_enforcer_of_memory(cgroup)));
	json_text_put(
		json, "processes", cgroup_enforcer_name(cgroup_enforcer_of_processes(cgroup)));
	json_text_put(json, "cpu", cgroup_enforcer_name(cgroup_enforcer_of_cpu(cgroup)));
	json_text_put(json, "io", cgroup_enforcer_name(cgroup_enforcer_of_io(cgroup)));
	json_text_put(json, "disk", disk_enforcer_name(disk.enforcer));
	if (disk.limit > 0)
		json_text_put_uint64(json, "disk_bytes", disk.limit);
	json_text_object_end(json);
}

/* Writes the rules by which cloister-egress connects the workspace, or "none". */
static void put_network(struct json_text *json, const struct workspace *workspace)
{
	const struct string_list *rules = &workspace_tenant(workspace)->egress_allow;
	struct text narrowed = text_from(workspace_narrowed(workspace));

	if (!workspace_has_network(workspace)) {
		json_text_put(json, "network", "none");
		return;
	}
	json_text_put_object(json, "network");
	json_text_put_array(json, "egress");
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

	json_text_put_object(json, "isolation");
	json_text_put(json, "mode", id_range() ? "system" : "user");
	json_text_put_array(json, "namespaces");
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++)
		json_text_string(json, text_from(namespaces[i]));
	json_text_array_end(json);
	put_network(json, workspace);
	json_text_put_bool(json, "landlock", feature_is_present("landlock"));
	/* Always true: without the filter a worker does not start. */
	json_text_put_bool(json, "command_filter", true);
	put_limits(json, cgroup, workspace);
	json_text_object_end(json);
}

static enum tool_error wrong_network(struct refusal *ret_refusal)
{
	return refusal_set(ret_refusal, TOOL_INVALID_ARGUMENTS,
		"network must be {\"allow\": [...]}, with rules as in egress_allow, such as "
		"\"github.com:443\"");
}

/* What is being read: the rules one by one, and all of them as text. */
struct wish {
	struct rules rules; /* so that their number has its bound here too */
	char *allow, *end;
};

static void wish_done(struct wish *wish)
{
	rules_done(&wish->rules);
	free(wish->allow);
}

/* Appends one rule to the text, where there is room. */
static enum tool_error add_rule(
	struct wish *wish, struct json_object *rule, struct refusal *ret_refusal)
{
	char why[LIMIT_EGRESS_REASON_BYTES] = "a string has one rule, without blanks";
	struct text text, shown;

	if (!json_object_is_type(rule, json_type_string))
		return wrong_network(ret_refusal);
	text = (struct text){
		json_object_get_string(rule), (size_t)json_object_get_string_len(rule)};
	/* A blank would make two rules of one. */
	if (!text_has_nul(text) && strcspn(text.data, " \t\r\n") == text.len &&
		config_egress_ask(&wish->rules, text.data, why, sizeof(why))) {
		wish->end =
			stpcpy(stpcpy(wish->end, wish->end > wish->allow ? " " : ""), text.data);
		return TOOL_OK;
	}
	shown = utf8_cut(text, SHOWN_BYTES);
	return refusal_format(ret_refusal, TOOL_INVALID_ARGUMENTS, "network.allow: \"%.*s%s\": %s",
		(int)shown.len, shown.data, shown.len < text.len ? "..." : "", why);
}

enum tool_error isolation_read_allow(
	struct json_object *params, char **ret_allow, struct refusal *ret_refusal)
{
	_cleanup_(wish_done) struct wish wish = {0};
	struct json_object *network = NULL, *list = NULL;
	enum tool_error error = TOOL_OK;
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
	wish.allow = wish.end = calloc(1, size);
	if (!wish.allow)
		return refusal_set(ret_refusal, TOOL_BUSY, NULL);
	for (size_t i = 0; error == TOOL_OK && i < json_object_array_length(list); i++)
		error = add_rule(&wish, json_object_array_get_idx(list, i), ret_refusal);
	if (error == TOOL_OK)
		*ret_allow = TAKE_PTR(wish.allow);
	return error;
}
