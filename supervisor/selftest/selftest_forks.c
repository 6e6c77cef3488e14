// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, which reads nothing of the template or the forks. What the forks' processes
 * say of their removal is not believed: rmdir(2) decides.
 */
#include "supervisor/selftest/selftest_forks.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "common/wire_files.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/forks.h"
#include "supervisor/workspace/templates.h"
#include "supervisor/workspace/workspace_calls.h"
#include "supervisor/workspace/workspace_freeze.h"
#include "supervisor/workspace/workspace_layers.h"
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
	struct forking *forking;   /* under way; NULL: none are */
	struct workspace *removed; /* held: the one that is being removed */
	bool is_entered;           /* entry is its */
	struct workspace_entry entry;
	selftest_forks_ended ended;
	void *context;
};

static void end(struct selftest_forks *forks, enum tool_error error, const char *said)
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
		end(forks, error, said);
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
		end(forks, TOOL_OK, forks->way);
		return;
	}
	error = forks_begin(
		forks->all, forks->tenant, &wanted, on_forked, forks, &forks->forking, &refusal);
	if (error != TOOL_OK)
		end(forks, error, refusal_text(&refusal));
}

static void on_frozen(void *context, enum tool_error error, const char *why)
{
	struct selftest_forks *forks = context;

	if (error == TOOL_OK)
		fork_next(forks);
	else
		end(forks, error, why);
}

static void freeze(struct selftest_forks *forks)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	enum tool_error error = workspace_freeze(
		forks->canary, TEXT_LITERAL(SELFTEST_TEMPLATE), on_frozen, forks, &refusal);

	if (error != TOOL_OK)
		end(forks, error, refusal_text(&refusal));
}

/* Removal, one after the other. */

static void remove_next(struct selftest_forks *forks);

static void finish(struct selftest_forks *forks, enum tool_error error, const char *why)
{
	struct workspace *workspace = TAKE_PTR(forks->removed);
	int r = error == TOOL_OK ? workspace_remove_directory(workspace) : 0;

	if (r < 0)
		error = tool_error_from_errno(-r);
	workspace_set_removing(workspace, false);
	workspace_release(workspace);
	if (error == TOOL_OK)
		remove_next(forks);
	else
		end(forks, error, why);
}

static void on_begin(void *context)
{
	struct selftest_forks *forks = context;

	workspace_send_files(
		forks->removed, FILES_CLEAR, forks->entry.call, (struct text){NULL, 0});
}

static int on_frame(void *context, const struct channel_frame *frame)
{
	struct selftest_forks *forks = context;
	struct files_end files_end;

	if (frame->type != FILES_END || files_end_get(frame->payload, &files_end) < 0)
		return -EBADMSG;
	forks->is_entered = false;
	workspace_leave(forks->removed, &forks->entry);
	finish(forks, files_end.error, NULL);
	return 0;
}

static void on_lost(void *context, enum tool_error error, const char *why)
{
	struct selftest_forks *forks = context;

	forks->is_entered = false;
	finish(forks, error, why);
}

static void clear(struct selftest_forks *forks)
{
	static const struct workspace_entry_owner owner = {on_begin, on_frame, on_lost, NULL};
	/* Never on the wire at the same time as those of calls, sessions and removal.c. */
	static uint64_t last = UINT64_MAX / 4;

	forks->entry = (struct workspace_entry){
		.call = last--, .class = CALL_CLASS_WRITE, .owner = &owner, .context = forks};
	forks->is_entered = true;
	workspace_enter(forks->removed, &forks->entry);
}

/* Its cell shows its own directory alone any more, which can be cleared so. */
static void on_base_shown(void *context, enum tool_error error, const char *why)
{
	if (error == TOOL_OK)
		clear(context);
	else
		finish(context, error, why);
}

/* @was_marked: a removal of it was under way, so that it is shown so already. */
static void begin_removal(struct selftest_forks *forks, bool was_marked)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	struct workspace *workspace = forks->removed;
	enum tool_error error;

	workspace_set_removing(workspace, true);
	if (was_marked ||
		(workspace_checkpoints(workspace) == 0 && !workspace_is_root(workspace))) {
		clear(forks);
		return;
	}
	error = workspace_show_base(workspace, on_base_shown, forks, &refusal);
	if (error != TOOL_OK)
		finish(forks, error, refusal_text(&refusal));
}

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
		end(forks, error, refusal_text(&refusal));
		return;
	}
	forks->has_siblings = forks->has_root = forks->are_there = false;
	if (!forks->canary) {
		end(forks, TOOL_OK, NULL);
		return;
	}
	forks->are_there = true;
	freeze(forks);
}

/* Finds one to remove, a marked one first, and holds it. TOOL_WORKSPACE_NOT_FOUND: there is none.
 */
static enum tool_error take_next(
	struct selftest_forks *forks, bool *ret_marked, struct refusal *ret_refusal)
{
	char name[LIMIT_TEMPLATE_NAME_BYTES + 1] = "", marked[sizeof(name)] = "";
	enum tool_error error = TOOL_WORKSPACE_NOT_FOUND;

	/* A mark without a workspace goes by this. */
	do {
		marked[0] = '\0';
		(void)workspaces_each_marked(forks->all, forks->tenant, take_fork, marked);
		if (marked[0])
			error = workspaces_get_marked(
				forks->all, forks->tenant, marked, &forks->removed);
	} while (marked[0] && error == TOOL_WORKSPACE_NOT_FOUND);
	*ret_marked = error == TOOL_OK;
	if (error != TOOL_WORKSPACE_NOT_FOUND)
		return error;
	(void)workspaces_each_managed(forks->all, forks->tenant, take_fork, name);
	return name[0] ? workspaces_get_managed(forks->all, forks->tenant, text_from(name), false,
				 &forks->removed, ret_refusal)
		       : error;
}

static void remove_next(struct selftest_forks *forks)
{
	_cleanup_(refusal_done) struct refusal refusal = {0};
	bool is_marked;
	enum tool_error error = take_next(forks, &is_marked, &refusal);

	if (error == TOOL_OK)
		begin_removal(forks, is_marked);
	else if (error == TOOL_WORKSPACE_NOT_FOUND)
		end_removal(forks);
	else
		end(forks, error, refusal_text(&refusal));
}

static void begin(struct selftest_forks *forks, struct workspace *canary,
	selftest_forks_ended ended, void *context)
{
	forks->canary = canary;
	forks->ended = ended;
	forks->context = context;
	remove_next(forks);
}

void selftest_forks_make(struct selftest_forks *forks, struct workspace *canary, bool as_root,
	selftest_forks_ended ended, void *context)
{
	forks->as_root = as_root;
	begin(forks, canary, ended, context);
}

void selftest_forks_remove(struct selftest_forks *forks, selftest_forks_ended ended, void *context)
{
	begin(forks, NULL, ended, context);
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
	if (forks->is_entered)
		workspace_leave(forks->removed, &forks->entry);
	free(forks);
}
