// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in cloister-egress, at start and on reload; cloisterd uses only
 * tenant_of_section(). The lines are the administrator's and may be wrong: cloisterd says how,
 * here they only must do no harm.
 */
#include "common/config/tenant_sections.h"

#include "common/limits.h"

#include <stdlib.h>
#include <string.h>

const char *tenant_of_section(const char *section)
{
	static const char prefix[] = "tenant ";

	if (!section || strncmp(section, prefix, strlen(prefix)) != 0)
		return NULL;
	return section + strlen(prefix);
}

static void *item(const struct tenant_sections *tenants, size_t i)
{
	return (char *)tenants->items + i * tenants->item_size;
}

static void *find_tenant_section(const struct tenant_sections *tenants, const char *name)
{
	for (size_t i = 0; i < tenants->count; i++)
		if (strcmp(item(tenants, i), name) == 0)
			return item(tenants, i);
	return NULL;
}

void *tenant_sections_add(struct tenant_sections *tenants, const char *name)
{
	size_t len = strlen(name);
	void *grown, *added;

	if (tenants->count >= tenants->max || len > LIMIT_CONFIG_NAME_BYTES)
		return NULL;
	grown = reallocarray(tenants->items, tenants->count + 1, tenants->item_size);
	if (!grown)
		return NULL;
	tenants->items = grown;
	added = item(tenants, tenants->count++);
	memcpy(added, tenants->defaults, tenants->item_size);
	memcpy(added, name, len + 1);
	return added;
}

void tenant_sections_begin(
	struct tenant_sections *tenants, struct config_reader *reader, const char *section)
{
	const char *name = tenant_of_section(section);

	tenants->current = name ? find_tenant_section(tenants, name) : NULL;
	if (!name || tenants->current)
		return;
	tenants->current = tenant_sections_add(tenants, name);
	if (!tenants->current)
		config_wrong(reader, "too many tenants, or too long a name");
}
