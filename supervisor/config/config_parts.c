// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd at start and on reload: combines the sections and settings of all files and
 * checks them against each other.
 */
#include "supervisor/config/config_parts.h"

#include "common/cleanup.h"
#include "common/config/disk_classes.h"
#include "common/config/tenant_sections.h"
#include "common/fd_path.h"
#include "common/limits.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/config_value.h"

#include <errno.h>
#include <stdio.h>

static bool is_tenant_name(const char *name)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);

	return len > 0 && len <= LIMIT_CONFIG_NAME_BYTES && name[0] != '.' &&
	       strspn(name, allowed) == len;
}

static struct config_part *find_tenant_part(const struct config_parts *parts, const char *name)
{
	for (size_t i = 0; i < parts->n_tenants; i++)
		if (strcmp(((struct tenant *)parts->tenants[i]->object)->name, name) == 0)
			return parts->tenants[i];
	return NULL;
}

static struct config_part *add_tenant_part(struct config_reader *reader, const char *name)
{
	struct config_parts *parts = reader->context;
	struct config_part **grown, *part;

	if (parts->n_tenants >= LIMIT_CONFIG_TENANTS) {
		config_wrong(reader, "more than %d tenants", LIMIT_CONFIG_TENANTS);
		return NULL;
	}
	grown = reallocarray(parts->tenants, parts->n_tenants + 1, sizeof(struct config_part *));
	part = calloc(1, sizeof(*part));
	if (grown)
		parts->tenants = grown;
	if (part)
		part->object = tenant_new(name);
	if (!grown || !part || !part->object) {
		free(part);
		config_wrong(reader, "out of memory");
		return NULL;
	}
	part->section = CONFIG_SECTION_TENANT;
	parts->tenants[parts->n_tenants++] = part;
	return part;
}

static struct config_part *find_part(struct config_reader *reader, const char *name)
{
	const char *tenant = tenant_of_section(name);
	struct config_parts *parts = reader->context;
	struct config_part *part;

	if (strcmp(name, "cloister") == 0)
		return &parts->host;
	if (!tenant) {
		config_wrong(reader,
			"unknown section [%.*s]: the sections are [cloister] and [tenant NAME]",
			config_shown(name), name);
		return NULL;
	}
	if (!is_tenant_name(tenant)) {
		config_wrong(reader,
			"\"%.*s\" is not a valid tenant name: use 1 to %d letters, digits, '.', "
			"'_' or '-', and do not begin with '.'",
			config_shown(tenant), tenant, LIMIT_CONFIG_NAME_BYTES);
		return NULL;
	}
	part = find_tenant_part(parts, tenant);
	return part ? part : add_tenant_part(reader, tenant);
}

static void begin_config_file(struct config_reader *reader)
{
	struct config_parts *parts = reader->context;

	parts->part = NULL;
	parts->in_wrong_section = false;
}

static void begin_config_section(struct config_reader *reader, const char *name)
{
	struct config_parts *parts = reader->context;
	struct config_part *part = name ? find_part(reader, name) : NULL;

	parts->part = part;
	parts->in_wrong_section = !part;
	if (!part)
		return;
	if (part->header.file == reader->file)
		config_wrong(reader,
			"the section [%s] is given twice in this file, first in line %u", name,
			part->header.line);
	else
		part->header = (struct config_place){reader->file, reader->line};
}

static void reset(struct config_part *part, const struct config_key *key)
{
	enum egress_words kind;

	config_key_reset(key, part->object);
	if (config_value_egress(key, &kind))
		config_egress_reset(&part->egress, kind);
}

static void unknown_key(
	struct config_reader *reader, const struct config_part *part, const char *name)
{
	bool in_tenant = part->section == CONFIG_SECTION_TENANT;

	if (config_key_find(in_tenant ? CONFIG_SECTION_HOST : CONFIG_SECTION_TENANT, name))
		config_wrong(reader, "%s belongs in %s", name,
			in_tenant ? "[cloister]" : "the section of a tenant, [tenant NAME]");
	else
		config_wrong(
			reader, "unknown key \"%.*s\" in this section", config_shown(name), name);
}

/* A key in a later file replaces the values from earlier files. */
static void take_config_setting(struct config_reader *reader, const char *name, const char *value)
{
	const struct config_parts *parts = reader->context;
	struct config_part *part = parts->part;
	const struct config_key *key;
	struct config_place *place;

	if (!part) {
		if (!parts->in_wrong_section)
			config_wrong(reader, "a setting before the first section");
		return;
	}
	key = config_key_find(part->section, name);
	if (!key) {
		unknown_key(reader, part, name);
		return;
	}
	if (value[0] == '\0') {
		config_wrong(reader, "%s: the value is missing", name);
		return;
	}
	place = &part->settings[key - config_keys];
	if (place->file == reader->file && !config_type_is_list(key->type)) {
		config_wrong(reader, "%s is given twice in this file, first in line %u", name,
			place->line);
		return;
	}
	if (place->file && place->file != reader->file)
		reset(part, key);
	if (place->file != reader->file)
		*place = (struct config_place){reader->file, reader->line};
	config_value_set(reader, key, value);
}

const struct config_handler config_parts_handler = {
	.file = begin_config_file,
	.section = begin_config_section,
	.setting = take_config_setting,
};

/* In each pair the first value must not exceed the second. */
static const struct {
	const char *lower, *upper;
} pairs[] = {
	{"command_timeout", "command_timeout_max"},
	{"output_kept", "output_total"},
	{"output_shown", "output_kept"},
	{"command_memory", "workspace_memory"},
	{"command_processes", "workspace_processes"},
};

/* If only the upper value is set, the default of the lower one is reduced to fit. */
static void check_pair(struct config_reader *reader, struct config_part *part,
	const struct config_key *lower, const struct config_key *upper)
{
	const struct config_place *place = &part->settings[lower - config_keys];
	uint64_t *low = config_field(lower, part->object),
		 *high = config_field(upper, part->object);
	char shown[2][32];

	if (*low <= *high)
		return;
	if (place->file)
		config_wrong_at(reader, place, "%s (%s) is more than %s (%s)", lower->name,
			config_key_show(lower, *low, shown[0], sizeof(shown[0])), upper->name,
			config_key_show(upper, *high, shown[1], sizeof(shown[1])));
	else
		*low = *high;
}

static int compile_patterns(
	const struct string_list *list, bool with_default, struct tenant *tenant)
{
	size_t room = list->count + command_policy_default_count, n = 0;
	_cleanup_free_ const char **patterns = calloc(room, sizeof(*patterns));
	_cleanup_free_ char *message = NULL;

	if (!patterns)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->strings[i], "default") == 0)
			with_default = true;
		else if (strcmp(list->strings[i], "none") != 0)
			patterns[n++] = list->strings[i];
	if (with_default)
		n += command_policy_defaults(
			tenant->network == TENANT_NETWORK_EGRESS, patterns + n);
	return command_policy_new(patterns, n, &tenant->policy, &message);
}

static int finish_tenant(struct config_reader *reader, struct config_part *part)
{
	const struct config_key *patterns =
		config_key_find(CONFIG_SECTION_TENANT, "blocked_commands");
	struct tenant *tenant = part->object;

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
		check_pair(reader, part, config_key_find(CONFIG_SECTION_TENANT, pairs[i].lower),
			config_key_find(CONFIG_SECTION_TENANT, pairs[i].upper));
	return compile_patterns(&tenant->blocked_patterns,
		part->settings[patterns - config_keys].file == NULL, tenant);
}

/*
 * Directories of cloister's own that the configuration names must not be shown to workspaces. The
 * others are checked when a workspace is opened.
 */
static void check_own(struct config_reader *reader, const struct config_place *place,
	const char *path, const struct config_host *host)
{
	const char *const own[] = {
		host->agent_socket, host->control_socket, host->state_dir, host->audit_file};

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (own[i] && config_paths_overlap(path, own[i]))
			config_wrong_at(reader, place,
				"readonly_paths: \"%.*s\" would show cloister's own %s",
				config_shown(path), path, own[i]);
}

/* A read-only path must not show a workspace to others, nor lie where a workspace can change it. */
static void check_roots(struct config_reader *reader, const struct config_place *place,
	const char *path, const struct root_list *roots)
{
	for (size_t i = 0; i < roots->count; i++) {
		_cleanup_free_ char *root = fd_path(roots->roots[i].fd);

		if (!root || config_paths_overlap(path, root))
			config_wrong_at(reader, place,
				"readonly_paths: \"%.*s\" overlaps with a tenant's root: %s",
				config_shown(path), path, root ? root : "(unknown)");
	}
}

static void check_readonly_paths(struct config_reader *reader, struct config_part *part)
{
	const struct config_key *key = config_key_find(CONFIG_SECTION_TENANT, "readonly_paths");
	const struct string_list *paths = config_field(key, part->object);
	const struct config_place *place = &part->settings[key - config_keys];
	const struct config_parts *parts = reader->context;

	for (size_t i = 0; i < paths->count; i++) {
		check_own(reader, place, paths->strings[i], parts->host.object);
		for (size_t j = 0; j < parts->n_tenants; j++)
			check_roots(reader, place, paths->strings[i],
				&((struct tenant *)parts->tenants[j]->object)->roots);
	}
}

/* Gives the tenant what its disk class allows. */
static void settle_disk(
	struct config_reader *reader, struct config_part *part, const struct disk_classes *classes)
{
	const struct config_key *key = config_key_find(CONFIG_SECTION_TENANT, "disk_class");
	struct tenant *tenant = part->object;
	const struct disk_class *class = disk_classes_find(classes, tenant->disk_class);

	if (class)
		tenant->disk = *class;
	else if (tenant->disk_class)
		config_wrong_at(reader, &part->settings[key - config_keys],
			"disk_class: \"%.*s\" is no class of disk_classes in [cloister]",
			config_shown(tenant->disk_class), tenant->disk_class);
}

/* An administrator who allows hosts and forgets the network would look for the mistake elsewhere.
 */
static void warn_without_network(struct config_reader *reader, const struct config_part *part)
{
	const struct config_key *key = config_key_find(CONFIG_SECTION_TENANT, "egress_allow");
	const struct config_place *place = &part->settings[key - config_keys];
	const struct tenant *tenant = part->object;

	if (place->file && tenant->network != TENANT_NETWORK_EGRESS)
		config_warn_at(reader, place,
			"egress_allow has no effect without network = egress: commands of the "
			"tenant %s have no network",
			tenant->name);
}

int config_parts_finish(struct config_reader *reader, struct config *config)
{
	const struct config_parts *parts = reader->context;
	struct disk_classes classes;
	int r = 0;

	config_disk_classes(&config->host, &classes);
	for (size_t i = 0; r == 0 && i < parts->n_tenants; i++) {
		check_readonly_paths(reader, parts->tenants[i]);
		config_egress_finish(&parts->tenants[i]->egress, reader);
		settle_disk(reader, parts->tenants[i], &classes);
		warn_without_network(reader, parts->tenants[i]);
		r = finish_tenant(reader, parts->tenants[i]);
		if (r == 0)
			r = config_add_tenant(config, tenant_hold(parts->tenants[i]->object));
	}
	return r;
}

void config_parts_done(struct config_parts *parts)
{
	for (size_t i = 0; i < parts->n_tenants; i++) {
		tenant_release(parts->tenants[i]->object);
		config_egress_done(&parts->tenants[i]->egress);
		free(parts->tenants[i]);
	}
	free(parts->tenants);
	config_egress_done(&parts->host.egress);
}
