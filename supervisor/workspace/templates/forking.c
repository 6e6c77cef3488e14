// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. The names of forks come from clients. */
#include "supervisor/workspace/templates/forking.h"

#include "supervisor/config/tenant.h"
#include "supervisor/workspace/templates/forking_state.h"
#include "supervisor/workspace/workspace_state.h"

#include <stdio.h>
#include <string.h>

const char *forking_by(const struct forking *forking)
{
	return !forking->copies ? "overlay" : forking->in_memory ? "memory" : "copy";
}

const char *forking_why_copied(const struct forking *forking)
{
	return forking->why_copied;
}

void forking_name(const struct forking *forking, uint32_t i, char *ret)
{
	snprintf(ret, LIMIT_TEMPLATE_NAME_BYTES + 1, "%.*s-%u",
		LIMIT_TEMPLATE_NAME_BYTES - DIGITS - 1, forking->prefix, forking->first + i);
}

struct tenant *forking_tenant(const struct forking *forking)
{
	return forking->tenant;
}

const char *forking_template(const struct forking *forking)
{
	return forking->template;
}

uint32_t forking_count(const struct forking *forking)
{
	return forking->count;
}

bool forks_copy(const struct workspaces *all, const struct tenant *tenant, const char *tree)
{
	const struct forking *forking;

	LIST_FOREACH (forking, &all->forking, entry)
		if ((forking->copies || forking->making) &&
			strcmp(forking->tenant->name, tenant->name) == 0 &&
			strcmp(forking->tree, tree) == 0)
			return true;
	return false;
}

uint32_t forking_number(const struct forking *forking, const char *name)
{
	size_t len = strlen(forking->prefix), digits;
	uint32_t number = 0;

	if (strncmp(name, forking->prefix, len) != 0 || name[len] != '-')
		return 0;
	name += len + 1;
	digits = strspn(name, "0123456789");
	if (digits == 0 || digits > DIGITS || name[digits] || *name == '0')
		return 0;
	for (; *name; name++)
		number = number * 10 + (uint32_t)(*name - '0');
	return number;
}

bool forks_make(const struct workspaces *all, const struct tenant *tenant, const char *name)
{
	const struct forking *forking;

	LIST_FOREACH (forking, &all->forking, entry) {
		const uint32_t number = forking->making ? forking_number(forking, name) : 0;

		if (number >= forking->first && number - forking->first < forking->count &&
			strcmp(forking->tenant->name, tenant->name) == 0)
			return true;
	}
	return false;
}
