// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/config/config.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/config/command_policy.h"
#include "supervisor/config/config_keys.h"

#include <errno.h>
#include <string.h>

struct config *config_new(void)
{
	struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return NULL;
	config->references = 1;
	config_keys_defaults(CONFIG_SECTION_HOST, &config->host);
	return config;
}

int config_add_tenant(struct config *config, struct tenant *tenant)
{
	struct tenant **grown =
		reallocarray(config->tenants, config->n_tenants + 1, sizeof(struct tenant *));

	if (!grown) {
		tenant_release(tenant);
		return -ENOMEM;
	}
	config->tenants = grown;
	grown[config->n_tenants++] = tenant;
	return 0;
}

struct config *config_user_mode(const char *name, uid_t uid)
{
	struct config *config = config_new();
	struct tenant *tenant = tenant_new(name);
	char *message = NULL;

	if (!config || !tenant)
		goto fail;
	/* A single user opens a workspace too seldom for spare cells. */
	config->host.spare_cells = 0;
	/* There are no other tenants whose commands would have to wait, so the user decides what
	 * computes. */
	config->host.commands_per_cpu = 0;
	tenant->managed = true;
	tenant->any_root = true;
	/* There are no other users to share the connections with. */
	config->host.connections_per_user = config->host.connections;
	tenant->limits.connections = config->host.connections;
	tenant->limits.commands = config->host.commands;
	tenant->limits.queue_length = LIMIT_TENANT_QUEUE_MAX;
	tenant->limits.calls = tenant->limits.calls_per_connection * config->host.connections;
	tenant->limits.workspaces = LIMIT_WORKSPACES_ALONE;
	tenant->users.ids = malloc(sizeof(*tenant->users.ids));
	if (!tenant->users.ids || command_policy_new_default(false, &tenant->policy, &message) < 0)
		goto fail;
	tenant->users.ids[tenant->users.count++] = uid;
	if (config_add_tenant(config, TAKE_PTR(tenant)) < 0)
		goto fail;
	return config;
fail:
	free(message);
	tenant_release(tenant);
	config_release(config);
	return NULL;
}

bool config_has_network(const struct config *config)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->network == TENANT_NETWORK_EGRESS)
			return true;
	return false;
}

bool config_has_root_inside(const struct config *config)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->root_inside)
			return true;
	return false;
}

struct config *config_hold(struct config *config)
{
	config->references++;
	return config;
}

void config_release(struct config *config)
{
	if (!config || --config->references > 0)
		return;
	for (size_t i = 0; i < config->n_tenants; i++)
		tenant_release(config->tenants[i]);
	free(config->tenants);
	config_keys_release(CONFIG_SECTION_HOST, &config->host);
	free(config);
}

struct tenant *config_find_tenant(const struct config *config, const char *name)
{
	for (size_t i = 0; i < config->n_tenants; i++)
		if (strcmp(config->tenants[i]->name, name) == 0)
			return config->tenants[i];
	return NULL;
}

void config_disk_classes(const struct config_host *host, struct disk_classes *ret)
{
	*ret = (struct disk_classes){.count = 0};
	for (size_t i = 0; i < host->disk_classes.count; i++)
		(void)disk_classes_add(ret, host->disk_classes.strings[i]);
}

uint64_t config_workspaces(const struct config *config)
{
	uint64_t count = 0;

	for (size_t i = 0; i < config->n_tenants; i++)
		count += config->tenants[i]->limits.workspaces;
	return count < LIMIT_WORKSPACES ? count : LIMIT_WORKSPACES;
}

uint64_t config_most_watches(const struct config *config)
{
	uint64_t most = LIMIT_WATCHES_MIN;

	for (size_t i = 0; i < config->n_tenants; i++)
		if (config->tenants[i]->limits.watches > most)
			most = config->tenants[i]->limits.watches;
	return most;
}
