// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, which reads nothing of the template or the forks.
 */
#include "supervisor/selftest/selftest_forks.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/config/tenant.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/layers/workspace_freeze.h"
#include "supervisor/workspace/templates/forks.h"
#include "supervisor/workspace/templates/templates.h"
#include "supervisor/workspace/workspaces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAY_BYTES 16

struct selftest_forks {
	struct workspaces *all;
	struct tenant *tenant;
	struct workspace *canary; /* becomes the template; NULL: all of it is removed */
	bool as_root;             /* a whole root is wanted, too */
	bool has_siblings, has_root;
	bool are_there; /* perhaps */
	char way[WAY_BYTES];
	struct forking *forking; /* under way; NULL: none are */
	selftest_forks_ended ended;
	void *context;
};

static void end_selftest_fork(struct selftest_forks *forks, enum tool_error error, const char *said)
{
	forks->ended(forks->context, error,
		error == TOOL_OK || said ? said : tool_error_sentence(error));
}

/* Making. */

static void fork_next(struct selftest_forks *forks);

static void on_forked(void *context, enum tool_error error, const char *why)
{
	struct selftest_forks *forks = context;
	_cleanup_free_ char *said = why ? strdup(why) : NULL;

	snprintf(forks->way, sizeof(forks->way), "%s", forking_by(forks->forking));
	forking_free(TAKE_PTR(forks->forking));
	if (error != TOOL_OK) {
		end_selftest_fork(forks, error, said);
		return;
	}
	if (forks->has_siblings)
		forks->has_root = true;
	forks->has_siblings = true;
	fork_next(forks);
}

static void fork_next(struct selftest_forks *forks)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	bool root = forks->has_siblings;
	const struct forks_wanted wanted = {.template = TEXT_LITERAL(SELFTEST_TEMPLATE),
		.prefix = root ? TEXT_LITERAL("root") : TEXT_LITERAL("fork"),
		.count = root ? 1 : 2,
		.as_root = root};
	enum tool_error error;

	if (root && (forks->has_root || !forks->as_root)) {
		end_selftest_fork(forks, TOOL_OK, forks->way);
		return;
	}
	error = forks_begin(
		forks->all, forks->tenant, &wanted, on_forked, forks, &forks->forking, &refusal);
	if (error != TOOL_OK)
		end_selftest_fork(forks, error, refusal_text(&refusal));
}

static void on_frozen(void *context, enum tool_error error, const char *why, bool replaced)
{
	struct selftest_forks *forks = context;

	(void)replaced;
	if (error == TOOL_OK)
		fork_next(forks);
	else
		end_selftest_fork(forks, error, why);
}

static void freeze_canary(struct selftest_forks *forks)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error = workspace_freeze(
		forks->canary, TEXT_LITERAL(SELFTEST_TEMPLATE), false, on_frozen, forks, &refusal);

	if (error != TOOL_OK)
		end_selftest_fork(forks, error, refusal_text(&refusal));
}

/* Removal. */

static void take_fork(void *context, const char *name)
{
	char *found = context;

	if (strcmp(name, SELFTEST_TEMPLATE) != 0)
		snprintf(found, LIMIT_TEMPLATE_NAME_BYTES + 1, "%s", name);
}

/* The template goes after the last fork. */
static void end_removal(struct selftest_forks *forks)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error = template_remove(
		forks->all, forks->tenant, TEXT_LITERAL(SELFTEST_TEMPLATE), &refusal);

	if (error != TOOL_OK && error != TOOL_NOT_FOUND) {
		end_selftest_fork(forks, error, refusal_text(&refusal));
		return;
	}
	forks->has_siblings = forks->has_root = forks->are_there = false;
	if (!forks->canary) {
		end_selftest_fork(forks, TOOL_OK, NULL);
		return;
	}
	forks->are_there = true;
	freeze_canary(forks);
}

static void remove_all(struct selftest_forks *forks)
{
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1];
	enum tool_error error;

	do {
		name[0] = '\0';
		(void)workspaces_each_managed(forks->all, forks->tenant, take_fork, name);
		error = name[0] ? workspaces_remove(forks->all, forks->tenant, name) : TOOL_OK;
	} while (name[0] && error == TOOL_OK);
	/* What is being cleared need not be waited for. */
	forks->tenant->usage->removed = 0;
	if (error == TOOL_OK)
		end_removal(forks);
	else
		end_selftest_fork(forks, error, NULL);
}

static void begin_selftest_fork(struct selftest_forks *forks, struct workspace *canary,
	selftest_forks_ended ended, void *context)
{
	forks->canary = canary;
	forks->ended = ended;
	forks->context = context;
	remove_all(forks);
}

void selftest_forks_make(struct selftest_forks *forks, struct workspace *canary, bool as_root,
	selftest_forks_ended ended, void *context)
{
	forks->as_root = as_root;
	begin_selftest_fork(forks, canary, ended, context);
}

void selftest_forks_remove(struct selftest_forks *forks, selftest_forks_ended ended, void *context)
{
	begin_selftest_fork(forks, NULL, ended, context);
}

bool selftest_forks_has(const struct selftest_forks *forks, const char *name)
{
	return strcmp(name, SELFTEST_ROOT) == 0 ? forks->has_root : forks->has_siblings;
}

bool selftest_forks_are_there(const struct selftest_forks *forks)
{
	return forks->are_there;
}

struct selftest_forks *selftest_forks_new(struct workspaces *all, struct tenant *tenant)
{
	struct selftest_forks *forks = calloc(1, sizeof(*forks));

	if (!forks)
		return NULL;
	forks->all = all;
	forks->tenant = tenant;
	return forks;
}

void selftest_forks_free(struct selftest_forks *forks)
{
	if (!forks)
		return;
	forking_free(forks->forking);
	free(forks);
}
