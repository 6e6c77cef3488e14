// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Reads the marks in the state directory; workspace_remove.c removes. */
#include "supervisor/workspace/removal.h"

#include "common/cleanup.h"
#include "supervisor/base/log.h"
#include "supervisor/config/config.h"
#include "supervisor/workspace/workspace_remove.h"
#include "supervisor/workspace/workspaces.h"

#include <event2/event.h>

struct left_over {
	STAILQ_ENTRY(left_over) entry;
	struct tenant *tenant; /* held */
	char name[];
};

struct removal {
	struct workspaces *workspaces;
	struct event *next;
	struct tenant *tenant; /* the tenant whose marked workspaces are being listed */
	STAILQ_HEAD(, left_over) left_overs;
	struct workspace *workspace; /* held; NULL: none is being removed */
	struct workspace_removing removing;
};

/*
 * Workspaces are removed one after the other; the end of each removal returns here through the
 * loop.
 */
static void go_on(struct removal *removal)
{
	event_active(removal->next, EV_TIMEOUT, 0);
}

static void on_removed(void *context, enum tool_error error, const char *why)
{
	struct removal *removal = context;
	struct workspace *workspace = TAKE_PTR(removal->workspace);
	const struct log_field *about =
		LOG_FIELDS({"CLOISTER_TENANT", text_from(workspace_tenant(workspace)->name)},
			{"CLOISTER_WORKSPACE", text_from(workspace_name(workspace))});

	(void)why;
	if (error == TOOL_OK) {
		log_about(LOG_INFO, about, "the removal of the workspace %s is finished",
			workspace_name(workspace));
		workspace_set_removing(workspace, false);
	} else {
		log_about(LOG_ERR, about,
			"the workspace %s is only partly removed, and the rest cannot be removed: "
			"%s",
			workspace_name(workspace), tool_error_sentence(error));
	}
	workspace_release(workspace);
	go_on(removal);
}

static void begin_removal(struct removal *removal, const struct left_over *left_over)
{
	enum tool_error error = workspaces_get_marked(
		removal->workspaces, left_over->tenant, left_over->name, &removal->workspace);

	if (error != TOOL_OK) {
		removal->workspace = NULL;
		/* BUSY: the former generation finishes it, and removal_look_again() comes. */
		if (error != TOOL_WORKSPACE_NOT_FOUND && error != TOOL_BUSY)
			log_about(LOG_ERR,
				LOG_FIELDS({"CLOISTER_TENANT", text_from(left_over->tenant->name)},
					{"CLOISTER_WORKSPACE", text_from(left_over->name)}),
				"the removal of the workspace %s cannot be finished: %s",
				left_over->name, tool_error_sentence(error));
		go_on(removal);
		return;
	}
	workspace_set_removing(removal->workspace, true);
	workspace_remove(&removal->removing, removal->workspace, true, on_removed, removal);
}

static void left_over_free(struct left_over *left_over)
{
	tenant_release(left_over->tenant);
	free(left_over);
}

static void on_next(evutil_socket_t fd, short what, void *context)
{
	struct removal *removal = context;
	struct left_over *left_over = STAILQ_FIRST(&removal->left_overs);

	(void)fd;
	(void)what;
	if (!left_over || removal->workspace)
		return;
	STAILQ_REMOVE_HEAD(&removal->left_overs, entry);
	begin_removal(removal, left_over);
	left_over_free(left_over);
}

static void add(void *context, const char *name)
{
	struct removal *removal = context;
	size_t size = strlen(name) + 1;
	struct left_over *left_over = malloc(sizeof(*left_over) + size);

	if (!left_over)
		return; /* it is found again at the next start */
	left_over->tenant = tenant_hold(removal->tenant);
	memcpy(left_over->name, name, size);
	STAILQ_INSERT_TAIL(&removal->left_overs, left_over, entry);
}

struct removal *removal_new(
	struct event_base *base, struct workspaces *workspaces, const struct config *config)
{
	struct removal *removal = calloc(1, sizeof(*removal));

	if (!removal)
		return NULL;
	removal->workspaces = workspaces;
	STAILQ_INIT(&removal->left_overs);
	removal->next = event_new(base, -1, 0, on_next, removal);
	if (!removal->next) {
		free(removal);
		return NULL;
	}
	if (config)
		removal_look_again(removal, config);
	return removal;
}

void removal_look_again(struct removal *removal, const struct config *config)
{
	for (size_t i = 0; i < config->n_tenants; i++) {
		removal->tenant = config->tenants[i];
		(void)workspaces_each_marked(removal->workspaces, config->tenants[i], add, removal);
	}
	go_on(removal);
}

void removal_free(struct removal *removal)
{
	struct left_over *left_over;

	if (!removal)
		return;
	while ((left_over = STAILQ_FIRST(&removal->left_overs))) {
		STAILQ_REMOVE_HEAD(&removal->left_overs, entry);
		left_over_free(left_over);
	}
	event_free(removal->next);
	free(removal);
}
