// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd, which reads nothing of the archive. */
#include "supervisor/selftest/selftest_import.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/selftest/selftest_results.h"
#include "supervisor/workspace/templates/template_import.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspace.h"

#include <stdio.h>
#include <stdlib.h>

#define TEMPLATE TEXT_LITERAL("imported")

struct selftest_import {
	struct workspaces *all;
	struct tenant *tenant;      /* the self-test's, which outlives all of this */
	selftest_imported imported; /* NULL: nobody waits for it */
	void *context;
};

static void remove_template(struct workspaces *all, struct tenant *tenant)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};

	(void)template_remove(all, tenant, TEMPLATE, &refusal);
}

static void on_imported(
	void *context, enum tool_error error, const char *why, const struct template_made *made)
{
	const struct unpack_report *left_out = error == TOOL_OK ? made->left_out : NULL;
	_cleanup_free_ struct selftest_import *import = context;
	char answer[SELFTEST_ANSWER_BYTES];

	(void)why;
	if (error == TOOL_OK)
		remove_template(import->all, import->tenant);
	if (!import->imported)
		return;
	if (error == TOOL_OK)
		snprintf(answer, sizeof(answer), "OK %llu",
			left_out ? (unsigned long long)(left_out->special + left_out->set_ids)
				 : 0ULL);
	else
		snprintf(answer, sizeof(answer), "%s", tool_error_name(error));
	import->imported(import->context, error, answer);
}

void selftest_import(struct workspaces *all, struct tenant *tenant, const struct workspace *canary,
	const char *name, selftest_imported imported, void *context, struct selftest_import **ret)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	_cleanup_free_ struct selftest_import *import = calloc(1, sizeof(*import));
	char path[LIMIT_PATH_BYTES];
	enum tool_error error = TOOL_BUSY;

	snprintf(path, sizeof(path), "%s/%s", workspace_host_path(canary), name);
	*ret = import;
	if (import) {
		*import = (struct selftest_import){all, tenant, imported, context};
		/* One that a death has left. */
		remove_template(all, tenant);
		error = template_import(all, tenant, TEMPLATE, text_from(path), false, on_imported,
			import, &refusal);
	}
	if (error == TOOL_OK) {
		TAKE_PTR(import);
		return;
	}
	*ret = NULL;
	imported(context, error, tool_error_name(error));
}

void selftest_import_forget(struct selftest_import *import)
{
	if (import)
		import->imported = NULL;
}
