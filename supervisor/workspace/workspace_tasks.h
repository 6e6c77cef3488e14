/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The tasks (processes and threads) that commands can start. Each command has its tenant's
 * command_processes, each workspace its workspace_processes, and all workspaces of one tenant
 * together could take every task of the host. So if several tenants may have more tasks than the
 * host, the tasks that a workspace's running commands can start come from a budget
 * (common/budget.h), and commands without room wait. The tasks of the service and of idle cells are
 * reserved. A tenant that holds nothing may always begin a command. For workspace_life.c,
 * workspaces.c and workspace_calls.c.
 */

#include <stdbool.h>
#include <stdint.h>

struct config;
struct workspace;
struct workspaces;

struct workspaces_tasks_view {
	/* that the host gives the service with all workspaces; UINT64_MAX: there is no limit */
	uint64_t most;
	const char *limited_by; /* NULL: nothing */
	uint64_t left;          /* of these for commands, beside the service and idle workspaces */
	uint64_t wanted;        /* that the tenants' commands may start together */
};

/** Compares the host's tasks with those that commands may start by the configuration. */
void workspaces_tasks(const struct config *config, struct workspaces_tasks_view *ret);

void workspaces_tasks_init(struct workspaces *workspaces);
void workspaces_tasks_done(struct workspaces *workspaces);

/** Follows the configuration. */
void workspaces_tasks_reload(struct workspaces *workspaces, const struct config *config);

/** Whether a command may begin in @workspace now. */
bool workspace_tasks_may(const struct workspace *workspace);

/**
 * The same, for a workspace with calls that may wait for it: its cell is settled when
 * there is room. Returns whether they have to wait.
 */
bool workspace_tasks_starve(struct workspace *workspace);

/** The number of commands that run in @workspace has changed. */
void workspace_tasks_count(struct workspace *workspace);

/** It is freed, or becomes another tenant's. */
void workspace_tasks_uncount(struct workspace *workspace);
