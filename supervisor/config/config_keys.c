// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and by the tests of the manual: constant data and functions of it. */
#include "supervisor/config/config_keys.h"

#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/limits.h"
#include "supervisor/config/config_sections.h"

#include <stdio.h>
#include <string.h>

#define HOST(field)   .section = CONFIG_SECTION_HOST, .offset = offsetof(struct config_host, field)
#define TENANT(field) .section = CONFIG_SECTION_TENANT, .offset = offsetof(struct tenant, field)
#define LIMIT(field)  TENANT(limits.field)

/* clang-format off */
const struct config_key config_keys[] = {
	/* [cloister] */
	{"agent_socket", HOST(agent_socket), .type = CONFIG_PATH, .at_start = true},
	{"agent_socket_mode", HOST(agent_socket_mode), .type = CONFIG_MODE, .max = 0777, .fallback = 0600, .at_start = true},
	{"control_socket", HOST(control_socket), .type = CONFIG_PATH, .at_start = true},
	{"state_dir", HOST(state_dir), .type = CONFIG_PATH, .at_start = true},
	{"state_files_min", HOST(state_files_min), .type = CONFIG_NUMBER, .max = LIMIT_COPY_FILES, .fallback = 10000},
	{"state_free_min", HOST(state_free_min_bytes), .type = CONFIG_BYTES, .max = LIMIT_FILE_SIZE_MAX_BYTES, .fallback = 256 * MIB},
	{"disk_classes", HOST(disk_classes), .type = CONFIG_CLASSES, .at_start = true},
	{"template_memory", HOST(template_memory_bytes), .type = CONFIG_BYTES, .max = LIMIT_MEMORY_MAX_BYTES},
	{"memory_free_min", HOST(memory_free_min_bytes), .type = CONFIG_BYTES, .max = LIMIT_MEMORY_MAX_BYTES, .fallback = 128 * MIB},
	{"audit", HOST(audit), .type = CONFIG_CHOICE, .choices = {"off", "on", "required"}, .at_start = true},
	{"audit_file", HOST(audit_file), .type = CONFIG_PATH, .at_start = true},
	{"audit_size", HOST(audit_size_bytes), .type = CONFIG_BYTES, .min = LIMIT_AUDIT_FILE_MIN_BYTES, .max = LIMIT_FILE_SIZE_MAX_BYTES, .fallback = 256 * MIB, .at_start = true},
	{"audit_files", HOST(audit_files), .type = CONFIG_NUMBER, .max = LIMIT_AUDIT_FILES_MAX, .fallback = 15, .at_start = true},
	{"journal", HOST(journal), .type = CONFIG_CHOICE, .choices = {"off", "fast", "durable"}, .fallback = 1, .at_start = true},
	{"user", HOST(user), .type = CONFIG_USER, .at_start = true},
	{"egress_socket", HOST(egress_socket), .type = CONFIG_PATH, .at_start = true},
	{"egress_user", HOST(egress_user), .type = CONFIG_USER, .at_start = true},
	{"gate_user", HOST(gate_users), .type = CONFIG_USERS},
	{"egress_resolver", HOST(egress_resolver), .type = CONFIG_RESOLVER},
	{"egress_ca", HOST(egress_ca), .type = CONFIG_PATH},
	{"mode", HOST(mode), .type = CONFIG_CHOICE, .choices = {"user", "system"}, .at_start = true},
	{"tenants", HOST(tenants), .type = CONFIG_CHOICE, .choices = {"expected", "none"}},
	{"umask", HOST(umask), .type = CONFIG_MODE, .max = 0077, .fallback = 0022, .at_start = true},
	{"connections", HOST(connections), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_CONNECTIONS_MAX, .fallback = 512},
	{"connections_per_user", HOST(connections_per_user), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_CONNECTIONS_MAX, .fallback = 128},
	{"commands", HOST(commands), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_COMMANDS_MAX, .fallback = 256},
	{"commands_per_cpu", HOST(commands_per_cpu), .type = CONFIG_NUMBER, .max = LIMIT_COMMANDS_PER_CPU_MAX, .fallback = 3},
	{"file_jobs", HOST(file_jobs), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_JOBS_MAX, .fallback = 64},
	{"workspace_idle_time", HOST(workspace_idle_ms), .type = CONFIG_TIME, .max = LIMIT_WORKSPACE_IDLE_MAX_MS, .fallback = 3600000},
	{"cells_kept", HOST(cells_kept), .type = CONFIG_NUMBER, .max = LIMIT_WORKSPACES, .fallback = 2000},
	{"drain_time", HOST(drain_ms), .type = CONFIG_TIME, .max = LIMIT_DRAIN_MAX_MS},
	{"retire_time", HOST(retire_ms), .type = CONFIG_TIME, .max = LIMIT_RETIRE_MAX_MS, .fallback = LIMIT_RETIRE_MS},
	{"selftest", HOST(selftest), .type = CONFIG_CHOICE, .choices = {"off", "start", "required"}, .at_start = true},
	{"selftest_interval", HOST(selftest_interval_ms), .type = CONFIG_TIME, .max = LIMIT_SELFTEST_INTERVAL_MAX_MS, .at_start = true},
	{"spare_cells", HOST(spare_cells), .type = CONFIG_NUMBER, .max = LIMIT_SPARE_CELLS_MAX, .fallback = 2},
	{"admin_group", HOST(admin_groups), .type = CONFIG_GROUPS},
	{"observer_group", HOST(observer_groups), .type = CONFIG_GROUPS},
	{"require", HOST(require), .type = CONFIG_FEATURES, .at_start = true},

	/* [tenant NAME] */
	{"users", TENANT(users), .type = CONFIG_USERS},
	{"groups", TENANT(groups), .type = CONFIG_GROUPS},
	{"weight", TENANT(weight), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_WEIGHT_MAX, .fallback = DEFAULT_TENANT_WEIGHT},
	{"disk_class", TENANT(disk_class), .type = CONFIG_NAME},
	{"managed", TENANT(managed), .type = CONFIG_YES_NO},
	{"gate", TENANT(gate), .type = CONFIG_YES_NO},
	{"roots", TENANT(roots), .type = CONFIG_ROOTS},
	{"root_inside", TENANT(root_inside), .type = CONFIG_YES_NO},
	{"network_roots", TENANT(network_roots), .type = CONFIG_YES_NO},
	{"network", TENANT(network), .type = CONFIG_CHOICE, .choices = {"none", "egress"}},
	{"forward_ports", TENANT(forward_ports), .type = CONFIG_PORTS, .min = LIMIT_FORWARD_PORT_MIN, .max = UINT16_MAX, .fallback = CONFIG_PORTS_OF(LIMIT_FORWARD_PORT_MIN, UINT16_MAX)},
	{"egress_allow", TENANT(egress_allow), .type = CONFIG_ALLOW},
	{"egress_deny", TENANT(egress_deny), .type = CONFIG_DENY},
	{"egress_private", TENANT(egress_private), .type = CONFIG_NETWORKS},
	{"egress_sni", TENANT(egress_sni), .type = CONFIG_CHOICE, .choices = {"match", "off"}},
	{"egress_connections", TENANT(egress_connections), .type = CONFIG_NUMBER, .max = LIMIT_EGRESS_CONNECTIONS_MAX, .fallback = DEFAULT_EGRESS_CONNECTIONS},
	{"egress_connect_rate", TENANT(egress_connect_rate), .type = CONFIG_NUMBER, .max = LIMIT_EGRESS_CONNECTIONS_MAX, .fallback = DEFAULT_EGRESS_CONNECT_RATE},
	{"egress_bytes_in", TENANT(egress_bytes_in), .type = CONFIG_BYTES, .max = LIMIT_FILE_SIZE_MAX_BYTES},
	{"egress_bytes_out", TENANT(egress_bytes_out), .type = CONFIG_BYTES, .max = LIMIT_FILE_SIZE_MAX_BYTES},
	{"egress_upstream", TENANT(egress_upstream), .type = CONFIG_UPSTREAM},
	{"egress_secret", TENANT(egress_secrets), .type = CONFIG_SECRETS},
	{"egress_port", TENANT(egress_port), .type = CONFIG_NUMBER, .min = LIMIT_PROXY_PORT_MIN, .max = 65535, .fallback = DEFAULT_EGRESS_PORT},
	/* In the order of enum tool_set, as bits. */
	{"tools", TENANT(tools), .type = CONFIG_CHOICE, .choices = {"basic", "basic edit", "basic patch", "basic edit patch",
		"basic sessions", "basic edit sessions", "basic patch sessions", "basic edit patch sessions"}},
	{"shell", TENANT(shell), .type = CONFIG_CHOICE, .choices = {"auto", "sh", "bash"}},
	{"command_filters", TENANT(command_filters), .type = CONFIG_CHOICE, .choices = {"refuse", "allow"}},
	{"durability", TENANT(durability), .type = CONFIG_CHOICE, .choices = {"durable", "fast"}},
	{"home", TENANT(home), .type = CONFIG_CHOICE, .choices = {"temporary", "kept"}},
	{"readonly_paths", TENANT(readonly_paths), .type = CONFIG_PATHS},
	{"environment", TENANT(environment), .type = CONFIG_ENVIRONMENT},
	{"blocked_commands", TENANT(blocked_patterns), .type = CONFIG_PATTERNS},
	{"command_timeout", LIMIT(command_timeout_ms), .type = CONFIG_TIME, .min = 1, .max = LIMIT_COMMAND_MAX_MS, .fallback = DEFAULT_COMMAND_MS},
	{"command_timeout_max", LIMIT(command_timeout_max_ms), .type = CONFIG_TIME, .min = 1, .max = LIMIT_COMMAND_MAX_MS, .fallback = LIMIT_COMMAND_MAX_MS},
	{"input_wait", LIMIT(input_wait_ms), .type = CONFIG_TIME, .max = LIMIT_INPUT_WAIT_MAX_MS, .fallback = 3000},
	{"file_timeout", LIMIT(file_timeout_ms), .type = CONFIG_TIME, .min = 1, .max = LIMIT_COMMAND_MAX_MS, .fallback = 30000},
	{"output_kept", LIMIT(output_kept_bytes), .type = CONFIG_BYTES, .min = KIB, .max = LIMIT_STREAM_KEPT_MAX_BYTES, .fallback = 256 * KIB},
	{"output_shown", LIMIT(output_shown_bytes), .type = CONFIG_BYTES, .min = KIB, .max = LIMIT_STREAM_KEPT_MAX_BYTES, .fallback = 46 * KIB},
	{"output_total", LIMIT(output_total_bytes), .type = CONFIG_BYTES, .min = KIB, .max = LIMIT_STREAM_TOTAL_MAX_BYTES, .fallback = 64 * MIB},
	{"connections", LIMIT(connections), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_CONNECTIONS_MAX, .fallback = 128},
	{"calls", LIMIT(calls), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_TENANT_CALLS_MAX, .fallback = 1024},
	{"calls_per_connection", LIMIT(calls_per_connection), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_CALLS_PER_CONNECTION, .fallback = LIMIT_CALLS_PER_CONNECTION},
	{"workspaces", LIMIT(workspaces), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_WORKSPACES, .fallback = 1024},
	{"workspaces_existing", LIMIT(workspaces_existing), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_TENANT_EXISTING_MAX, .fallback = DEFAULT_WORKSPACES_EXISTING},
	{"templates", LIMIT(templates), .type = CONFIG_NUMBER, .max = LIMIT_TEMPLATES_MAX, .fallback = 16},
	{"template_memory", LIMIT(template_memory_bytes), .type = CONFIG_BYTES, .max = LIMIT_MEMORY_MAX_BYTES, .fallback = DEFAULT_TEMPLATE_MEMORY_BYTES},
	{"commands", LIMIT(commands), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_TENANT_COMMANDS_MAX, .fallback = 64},
	{"commands_per_workspace", LIMIT(commands_per_workspace), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_COMMANDS_PER_WORKSPACE, .fallback = LIMIT_COMMANDS_PER_WORKSPACE},
	{"queue_length", LIMIT(queue_length), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_TENANT_QUEUE_MAX, .fallback = 256},
	{"queue_time", LIMIT(queue_ms), .type = CONFIG_TIME, .min = 1, .max = LIMIT_COMMAND_MAX_MS, .fallback = 60000},
	{"command_memory", LIMIT(command_memory_bytes), .type = CONFIG_BYTES, .min = LIMIT_MEMORY_MIN_BYTES, .max = LIMIT_MEMORY_MAX_BYTES, .fallback = DEFAULT_COMMAND_MEMORY_BYTES},
	{"workspace_memory", LIMIT(workspace_memory_bytes), .type = CONFIG_BYTES, .min = 32 * MIB, .max = LIMIT_MEMORY_MAX_BYTES, .fallback = DEFAULT_WORKSPACE_MEMORY_BYTES},
	{"command_processes", LIMIT(command_processes), .type = CONFIG_NUMBER, .min = 2, .max = LIMIT_PROCESSES_MAX, .fallback = 512},
	{"workspace_processes", LIMIT(workspace_processes), .type = CONFIG_NUMBER, .min = 16, .max = LIMIT_PROCESSES_MAX, .fallback = DEFAULT_WORKSPACE_PROCESSES},
	{"cpu_weight", LIMIT(cpu_weight), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_WEIGHT_MAX, .fallback = DEFAULT_TENANT_WEIGHT},
	{"cpu_max", LIMIT(cpu_max_percent), .type = CONFIG_PERCENT, .max = LIMIT_CPU_QUOTA_MAX_PERCENT, .fallback = DEFAULT_CPU_MAX_PERCENT},
	{"io_weight", LIMIT(io_weight), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_WEIGHT_MAX, .fallback = DEFAULT_TENANT_WEIGHT},
	{"tmp_size", LIMIT(tmp_bytes), .type = CONFIG_BYTES, .min = LIMIT_TMP_MIN_BYTES, .max = LIMIT_TMP_MAX_BYTES, .fallback = DEFAULT_TMP_BYTES},
	{"home_size", LIMIT(home_bytes), .type = CONFIG_BYTES, .min = LIMIT_TMP_MIN_BYTES, .max = LIMIT_FILE_SIZE_MAX_BYTES, .fallback = DEFAULT_HOME_BYTES},
	{"file_size", LIMIT(file_size_bytes), .type = CONFIG_BYTES, .min = LIMIT_TMP_MIN_BYTES, .max = LIMIT_FILE_SIZE_MAX_BYTES, .fallback = DEFAULT_FILE_SIZE_BYTES},
	{"process_data", LIMIT(process_data_bytes), .type = CONFIG_BYTES, .max = LIMIT_MEMORY_MAX_BYTES, .fallback = 0},
	{"open_files", LIMIT(open_files), .type = CONFIG_NUMBER, .min = LIMIT_OPEN_FILES_MIN, .max = LIMIT_OPEN_FILES_MAX, .fallback = DEFAULT_OPEN_FILES},
	{"watches", LIMIT(watches), .type = CONFIG_NUMBER, .min = LIMIT_WATCHES_MIN, .max = LIMIT_WATCHES_MAX, .fallback = DEFAULT_WATCHES},
	{"keys", LIMIT(keys), .type = CONFIG_NUMBER, .max = LIMIT_KEYS_MAX, .fallback = 10000},
	{"sessions", LIMIT(sessions), .type = CONFIG_NUMBER, .max = LIMIT_SESSIONS, .fallback = 32},
	{"sessions_per_workspace", LIMIT(sessions_per_workspace), .type = CONFIG_NUMBER, .min = 1, .max = LIMIT_SESSIONS_PER_WORKSPACE, .fallback = 8},
	{"session_lifetime", LIMIT(session_lifetime_ms), .type = CONFIG_TIME, .min = 1, .max = LIMIT_SESSION_TIME_MS, .fallback = 8 * 3600000ULL},
	{"session_idle", LIMIT(session_idle_ms), .type = CONFIG_TIME, .max = LIMIT_SESSION_TIME_MS, .fallback = 0},
	{"session_detached", LIMIT(session_detached_ms), .type = CONFIG_TIME, .min = 1, .max = LIMIT_SESSION_TIME_MS, .fallback = 15 * 60000ULL},
	{"session_retention", LIMIT(session_retention_ms), .type = CONFIG_TIME, .max = LIMIT_SESSION_TIME_MS, .fallback = 10 * 60000ULL},
	{"key_horizon", LIMIT(key_horizon_ms), .type = CONFIG_TIME, .min = LIMIT_KEY_HORIZON_MIN_MS, .max = LIMIT_KEY_HORIZON_MAX_MS, .fallback = 24 * 3600000ULL},
};
/* clang-format on */

const size_t config_keys_count = ARRAY_SIZE(config_keys);

_Static_assert(ARRAY_SIZE(config_keys) <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX");

/* How the fields of each type are stored. */
enum storage {
	STORED_STRING,
	STORED_NUMBER,
	STORED_BOOL,
	STORED_IDS,
	STORED_STRINGS,
	STORED_ROOTS
};

static const struct {
	const char *form;
	bool list;
	enum storage storage;
} types[CONFIG_TYPES] = {
	[CONFIG_PATH] = {"an absolute path without \".\", \"..\" or \"//\"", false, STORED_STRING},
	[CONFIG_USER] = {"the name of a user", false, STORED_STRING},
	[CONFIG_BYTES] = {"a size: a number of bytes, or one with K, M, G or T, such as 4G", false,
		STORED_NUMBER},
	[CONFIG_TIME] = {"a time: a number with ms, s, min or h, such as 30s", false,
		STORED_NUMBER},
	[CONFIG_NUMBER] = {"a whole number", false, STORED_NUMBER},
	[CONFIG_PERCENT] = {"a whole number with %, such as 150%", false, STORED_NUMBER},
	[CONFIG_MODE] = {"an octal mode such as 0660", false, STORED_NUMBER},
	[CONFIG_CHOICE] = {"one of", false, STORED_NUMBER},
	[CONFIG_YES_NO] = {"yes or no", false, STORED_BOOL},
	[CONFIG_PORTS] = {"none, a port or a range of ports such as 3000-3999", false,
		STORED_NUMBER},
	[CONFIG_USERS] = {"names or numbers of users", true, STORED_IDS},
	[CONFIG_GROUPS] = {"names or numbers of groups", true, STORED_IDS},
	[CONFIG_FEATURES] = {"names of features", true, STORED_STRINGS},
	[CONFIG_CLASSES] = {"disk classes", true, STORED_STRINGS},
	[CONFIG_ALLOW] = {"a rule", true, STORED_STRINGS},
	[CONFIG_DENY] = {"a rule", true, STORED_STRINGS},
	[CONFIG_NETWORKS] = {"a network", true, STORED_STRINGS},
	[CONFIG_RESOLVER] = {"an address", true, STORED_STRINGS},
	[CONFIG_NAME] = {"the name of a disk class", false, STORED_STRING},
	[CONFIG_UPSTREAM] = {"the URL of a proxy", false, STORED_STRING},
	[CONFIG_ROOTS] = {"an absolute path without \".\", \"..\" or \"//\"", true, STORED_ROOTS},
	[CONFIG_PATHS] = {"an absolute path without \".\", \"..\" or \"//\"", true, STORED_STRINGS},
	[CONFIG_PATTERNS] = {"a pattern, \"default\" or \"none\"", true, STORED_STRINGS},
	[CONFIG_SECRETS] = {"a secret", true, STORED_STRINGS},
	[CONFIG_ENVIRONMENT] = {"NAME=VALUE, the name of letters, digits and _", true,
		STORED_STRINGS},
};

const struct config_key *config_key_find(enum config_section section, const char *name)
{
	for (size_t i = 0; i < config_keys_count; i++)
		if (config_keys[i].section == section && strcmp(config_keys[i].name, name) == 0)
			return &config_keys[i];
	return NULL;
}

bool config_type_is_list(enum config_type type)
{
	return types[type].list;
}

const char *config_type_form(enum config_type type)
{
	return types[type].form;
}

static void set_default(const struct config_key *key, void *object)
{
	if (types[key->type].storage == STORED_NUMBER)
		*(uint64_t *)config_field(key, object) = key->fallback;
}

void config_keys_defaults(enum config_section section, void *object)
{
	for (size_t i = 0; i < config_keys_count; i++)
		if (config_keys[i].section == section)
			set_default(&config_keys[i], object);
}

static void release_ids(struct id_list *list)
{
	free(list->ids);
	*list = (struct id_list){0};
}

void config_key_reset(const struct config_key *key, void *object)
{
	void *field = config_field(key, object);

	switch (types[key->type].storage) {
	case STORED_STRING:
		free(*(char **)field);
		*(char **)field = NULL;
		break;
	case STORED_BOOL:
		*(bool *)field = false;
		break;
	case STORED_IDS:
		release_ids(field);
		break;
	case STORED_STRINGS:
		string_list_done(field);
		break;
	case STORED_ROOTS:
		root_list_done(field);
		break;
	case STORED_NUMBER:
		set_default(key, object);
		break;
	}
}

void config_keys_release(enum config_section section, void *object)
{
	for (size_t i = 0; i < config_keys_count; i++)
		if (config_keys[i].section == section)
			config_key_reset(&config_keys[i], object);
}

static bool equal_strings(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool config_key_equal(const struct config_key *key, void *a, void *b)
{
	const void *field_a = config_field(key, a), *field_b = config_field(key, b);
	const struct string_list *strings_a = field_a, *strings_b = field_b;

	switch (types[key->type].storage) {
	case STORED_STRING:
		return equal_strings(*(char *const *)field_a, *(char *const *)field_b);
	case STORED_NUMBER:
		return *(const uint64_t *)field_a == *(const uint64_t *)field_b;
	case STORED_STRINGS:
		for (size_t i = 0; i < strings_a->count && i < strings_b->count; i++)
			if (strcmp(strings_a->strings[i], strings_b->strings[i]) != 0)
				return false;
		return strings_a->count == strings_b->count;
	default:
		return false;
	}
}

struct unit {
	uint64_t size;
	const char *name;
};

/* Chooses the largest unit that gives a whole number. */
static const char *show_units(
	const struct unit *units, uint64_t value, char *buffer, size_t buffer_size)
{
	while (units->size > 1 && (value == 0 || value % units->size != 0))
		units++;
	snprintf(buffer, buffer_size, "%llu%s", (unsigned long long)(value / units->size),
		units->name);
	return buffer;
}

const char *config_key_show(const struct config_key *key, uint64_t value, char *buffer, size_t size)
{
	static const struct unit bytes[] = {
		{1024 * GIB, "T"}, {GIB, "G"}, {MIB, "M"}, {KIB, "K"}, {1, ""}};
	static const struct unit times[] = {{3600000, "h"}, {60000, "min"}, {1000, "s"}, {1, "ms"}};
	static const struct unit percents[] = {{1, "%"}}, plain[] = {{1, ""}};

	switch (key->type) {
	case CONFIG_BYTES:
		return show_units(bytes, value, buffer, size);
	case CONFIG_TIME:
		return show_units(times, value, buffer, size);
	case CONFIG_PERCENT:
		return show_units(percents, value, buffer, size);
	case CONFIG_MODE:
		snprintf(buffer, size, "%04llo", (unsigned long long)value);
		return buffer;
	case CONFIG_PORTS:
		if (value > UINT16_MAX)
			snprintf(buffer, size, "%llu-%llu",
				(unsigned long long)CONFIG_PORTS_LOW(value),
				(unsigned long long)CONFIG_PORTS_HIGH(value));
		else
			snprintf(buffer, size, value ? "%llu" : "none", (unsigned long long)value);
		return buffer;
	default:
		return show_units(plain, value, buffer, size);
	}
}
