// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd at start and on reload: turns the files into a configuration or a list of
 * mistakes.
 */
#include "supervisor/config/config_load.h"

#include "common/cleanup.h"
#include "common/config/config_files.h"
#include "supervisor/config/accounts.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/config_parts.h"
#include "supervisor/config/config_value.h"

#include <errno.h>

struct config_source {
	struct config_files files;
	struct accounts *accounts;
};

void config_source_free(struct config_source *source)
{
	if (!source)
		return;
	config_files_done(&source->files);
	accounts_free(source->accounts);
	free(source);
}

int config_source_open(const char *path, struct config_source **ret)
{
	struct config_source *source = calloc(1, sizeof(*source));
	int r;

	if (!source)
		return -ENOMEM;
	source->files.directory_fd = -1;
	r = config_files_open(path, &source->files);
	if (r == 0)
		r = accounts_open("/etc", &source->accounts);
	if (r < 0) {
		config_source_free(source);
		return r;
	}
	*ret = source;
	return 0;
}

char *config_source_drop_ins(const struct config_source *source)
{
	return config_files_drop_ins(&source->files);
}

void config_source_lock(struct config_source *source)
{
	accounts_lock(source->accounts);
}

/* Sets a key of user mode's one tenant by the option @name. */
static int set_by_option(struct config *config, const char *key_name, const char *name,
	const char *value, const struct config_complaints *complaints)
{
	struct config_key key = *config_key_find(CONFIG_SECTION_TENANT, key_name);
	struct config_part part = {.object = config->tenants[0]};
	struct config_parts parts = {.part = &part};
	struct config_reader reader = {
		.complaints = complaints, .context = &parts, .file = "command line"};

	key.name = name;
	config_value_set(&reader, &key, value);
	config_egress_done(&part.egress);
	return reader.mistakes > 0 ? -EINVAL : 0;
}

int config_show_path(
	struct config *config, const char *path, const struct config_complaints *complaints)
{
	return set_by_option(config, "readonly_paths", "--readonly-path", path, complaints);
}

int config_allow_private(
	struct config *config, const char *network, const struct config_complaints *complaints)
{
	return set_by_option(config, "egress_private", "--allow-private-net", network, complaints);
}

int config_allow_host(
	struct config *config, const char *rule, const struct config_complaints *complaints)
{
	struct tenant *tenant = config->tenants[0];
	_cleanup_free_ char *message = NULL;
	struct command_policy *policy;
	int r = command_policy_new_default(true, &policy, &message);

	if (r < 0)
		return r;
	command_policy_free(tenant->policy);
	tenant->policy = policy;
	tenant->network = TENANT_NETWORK_EGRESS;
	return set_by_option(config, "egress_allow", "--allow-net", rule, complaints);
}

int config_set_variable(
	struct config *config, const char *variable, const struct config_complaints *complaints)
{
	return set_by_option(config, "environment", "--env", variable, complaints);
}

int config_load(const struct config_source *source, const struct config_complaints *complaints,
	struct config **ret)
{
	_cleanup_(config_file_names_done) struct config_file_names names = {0};
	_cleanup_(config_parts_done) struct config_parts parts = {.accounts = source->accounts};
	struct config_reader reader = {
		.complaints = complaints,
		.handler = &config_parts_handler,
		.context = &parts,
	};
	struct config *config = config_new();
	int r;

	if (!config)
		return -ENOMEM;
	parts.host.object = &config->host;
	config->from_file = true;
	r = config_files_read(&source->files, &reader, &names);
	if (r == 0)
		r = config_parts_finish(&reader, config);
	if (r == 0 && config->host.mode == CONFIG_MODE_SYSTEM && reader.not_roots)
		config_wrong_at(&reader, &(struct config_place){names.paths[0], 0},
			"in system mode this file, its drop-ins and the directories that they are "
			"in must belong to root: chown root");
	/* A configuration without tenants is more often a truncated file than intended. */
	if (r == 0 && reader.mistakes == 0 && config->n_tenants == 0 &&
		config->host.tenants != CONFIG_TENANTS_NONE)
		config_wrong_at(&reader, &(struct config_place){names.paths[0], 0},
			"neither this file nor a drop-in has a section [tenant NAME], so no client "
			"would be served; if that is intended, set tenants = none in [cloister]");
	if (r == 0 && reader.mistakes > 0)
		r = -EINVAL;
	if (r < 0) {
		config_release(config);
		return r;
	}
	*ret = config;
	return 0;
}
