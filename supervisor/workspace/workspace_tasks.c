// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. Commands are hostile: what they may start counts, not what they have. */
#include "supervisor/workspace/workspace_tasks.h"

#include "common/links.h"
#include "supervisor/config/config.h"
#include "supervisor/host/shared_budgets.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspace_state.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns how many tasks the tenants' commands can start, if all run that may. */
static uint64_t wanted_tasks(const struct config *config)
{
	uint64_t sum = 0, sessions = 0, most = 0;

	for (size_t i = 0; i < config->n_tenants; i++) {
		const struct tenant_limits *limits = &config->tenants[i]->limits;

		sum += smaller(limits->workspaces * limits->workspace_processes,
			(limits->commands + limits->sessions) * limits->command_processes);
		sessions += limits->sessions * limits->command_processes;
		if (limits->command_processes > most)
			most = limits->command_processes;
	}
	/* The host's commands bound those of all tenants, though not their sessions. */
	return smaller(sum, sessions + config->host.commands * most);
}

void workspaces_tasks(const struct config *config, struct workspaces_tasks_view *ret)
{
	const uint64_t idle = config_workspaces(config) * SHARED_BUDGET_OPEN_TASKS;

	ret->most = shared_budgets_tasks(&ret->limited_by);
	ret->left = ret->most - smaller(idle, ret->most / 2);
	ret->wanted = wanted_tasks(config);
}

/* Those that came first are fed first. What finds room takes it when its command begins. */
static void feed(void *context)
{
	struct workspaces *all = context;
	struct workspace *workspace, *next;

	for (workspace = TAILQ_FIRST(&all->starving); workspace; workspace = next) {
		next = TAILQ_NEXT(workspace, starving_link);
		if (workspace_tasks_may(workspace))
			cell_settle(workspace->cell);
	}
}

void workspaces_tasks_init(struct workspaces *workspaces)
{
	TAILQ_INIT(&workspaces->starving);
	workspaces->feed = (struct loop_turn_task){.act = feed, .context = workspaces};
}

void workspaces_tasks_done(struct workspaces *workspaces)
{
	loop_turn_cancel(&workspaces->feed);
}

void workspaces_tasks_reload(struct workspaces *workspaces, const struct config *config)
{
	struct workspaces_tasks_view view;

	workspaces_tasks(config, &view);
	workspaces->tasks_are_few = config->n_tenants > 1 && view.wanted > view.left;
	budget_set(&workspaces->tasks, view.left, config->n_tenants, 0);
	loop_turn_defer(&workspaces->feed);
}

/* Returns how many tasks so many commands of the workspace can start. */
static uint64_t of_commands(const struct workspace *workspace, uint64_t commands)
{
	const struct tenant_limits *limits = &workspace->tenant->limits;

	return smaller(commands * limits->command_processes, limits->workspace_processes);
}

static uint64_t running(const struct workspace *workspace)
{
	return workspace->running[CALL_CLASS_COMMAND] + workspace->running[CALL_CLASS_SESSION];
}

bool workspace_tasks_may(const struct workspace *workspace)
{
	const struct workspaces *all = workspace->all;
	const uint64_t own = workspace->tenant->usage->tasks_held,
		       then = of_commands(workspace, running(workspace) + 1);

	return !all->tasks_are_few || own == 0 || then <= workspace->tasks ||
	       budget_left(&all->tasks, own) >= then - workspace->tasks;
}

static void stop_starving(struct workspace *workspace)
{
	if (workspace->starves)
		TAILQ_UNLINK(&workspace->all->starving, workspace, starving_link);
	workspace->starves = false;
}

bool workspace_tasks_starve(struct workspace *workspace)
{
	const bool starves = !TAILQ_EMPTY(&workspace->entries) && !workspace_tasks_may(workspace);

	if (starves && !workspace->starves)
		TAILQ_LINK_TAIL(&workspace->all->starving, workspace, starving_link);
	else if (!starves)
		stop_starving(workspace);
	workspace->starves = starves;
	return starves;
}

static void hold_workspace_tasks(struct workspace *workspace, uint64_t tasks)
{
	budget_take(&workspace->all->tasks, &workspace->tenant->usage->tasks_held,
		(int64_t)tasks - (int64_t)workspace->tasks);
	workspace->tasks = tasks;
}

void workspace_tasks_count(struct workspace *workspace)
{
	const uint64_t before = workspace->tasks, commands = running(workspace),
		       now = commands > 0 ? of_commands(workspace, commands) : 0;

	if (now != before)
		hold_workspace_tasks(workspace, now);
	if (now < before && !TAILQ_EMPTY(&workspace->all->starving))
		loop_turn_defer(&workspace->all->feed);
}

void workspace_tasks_uncount(struct workspace *workspace)
{
	/* Calls that wait go on to wait if it becomes another tenant's. */
	if (TAILQ_EMPTY(&workspace->entries))
		stop_starving(workspace);
	hold_workspace_tasks(workspace, 0);
	loop_turn_defer(&workspace->all->feed);
}
