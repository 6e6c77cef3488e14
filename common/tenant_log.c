// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-spawner and cloister-egress. The names are of cloisterd, which may have been
 * taken over.
 */
#include "common/tenant_log.h"

#include "common/limits.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

struct tenant_lines {
	LIST_ENTRY(tenant_lines) entry;
	unsigned logged;
	char tenant[LIMIT_NAME_BYTES + 1]; /* its name, or that of its directory */
};

static LIST_HEAD(, tenant_lines) tenants = LIST_HEAD_INITIALIZER(tenants);
static size_t n_tenants;
static struct tenant_lines others = {.tenant = "and others"};

static struct tenant_lines *lines_of(struct text tenant)
{
	struct tenant_lines *lines;

	LIST_FOREACH (lines, &tenants, entry)
		if (text_equal(text_from(lines->tenant), tenant))
			return lines;
	lines = n_tenants < LIMIT_CONFIG_TENANTS ? calloc(1, sizeof(*lines)) : NULL;
	if (!lines)
		return &others;
	snprintf(lines->tenant, sizeof(lines->tenant), "%.*s", (int)tenant.len, tenant.data);
	LIST_INSERT_HEAD(&tenants, lines, entry);
	n_tenants++;
	return lines;
}

bool tenant_log_may(struct text tenant)
{
	struct tenant_lines *lines = lines_of(tenant);

	if (lines->logged < LIMIT_REFUSALS_LOGGED_OF_TENANT) {
		lines->logged++;
		return true;
	}
	if (lines->logged++ == LIMIT_REFUSALS_LOGGED_OF_TENANT)
		fprintf(stderr, "%s: nothing more about tenant %s is logged: %d lines are all\n",
			program_invocation_short_name, lines->tenant,
			LIMIT_REFUSALS_LOGGED_OF_TENANT);
	return false;
}
