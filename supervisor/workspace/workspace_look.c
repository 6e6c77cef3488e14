// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. */
#include "supervisor/workspace/workspace_look.h"

#include "common/limits.h"
#include "supervisor/base/clock.h"
#include "supervisor/cell/cell_trouble.h"
#include "supervisor/workspace/workspace_disk.h"
#include "supervisor/workspace/workspace_state.h"

void workspace_get_info(const struct workspace *workspace, struct workspace_info *ret)
{
	const struct workspace_entry *entry;
	const struct disk_state disk = workspace_disk(workspace);
	struct workspace_info info = {
		.cell = cell_status(workspace->cell),
		.users = workspace->users,
		.commands = workspace->running[CALL_CLASS_COMMAND],
		.made_ms = workspace->made_ms,
		.ended_cpu_us = workspace->ended_cpu_us,
		.disk_bytes = workspace->disk.known ? (int64_t)workspace->disk.bytes : -1,
		.disk_files = workspace->disk.known ? (int64_t)workspace->disk.files : -1,
		.disk_partial = workspace->disk.partial,
		.disk_limit = disk.limit > 0 ? (int64_t)disk.limit : -1,
		.disk_enforcer = disk_enforcer_name(disk.enforcer),
	};

	info.trouble = cell_trouble(workspace->cell, &info.trouble_age_ms);
	info.held = cell_is_held(workspace->cell);
	TAILQ_FOREACH (entry, &workspace->entries, link) {
		info.running += entry->begun;
		info.waiting += !entry->begun;
	}
	if (TAILQ_EMPTY(&workspace->entries))
		info.idle_ms = (clock_now() - workspace->last_used) / CLOCK_NS_PER_MS;
	*ret = info;
}

void workspace_look_at_disk(struct workspace *workspace)
{
	disk_use_look(&workspace->disk, workspace->running[CALL_CLASS_WRITE] > 0 ||
						workspace->running[CALL_CLASS_COMMAND] > 0 ||
						workspace->running[CALL_CLASS_SESSION] > 0);
}

/* Whether it is time to look at it again, and there is room for one more look in this second. */
static bool may_look(struct workspace *workspace)
{
	struct workspaces *all = workspace->all;
	int64_t now = clock_now(), second = now / CLOCK_NS_PER_S;
	int64_t pause = (int64_t)(1 + all->count / LIMIT_USAGE_LOOKS) * CLOCK_NS_PER_S;

	if (workspace->look.at > 0 && now - workspace->look.at < pause)
		return false;
	if (second != all->looks_second)
		all->looks = 0;
	all->looks_second = second;
	return all->looks++ < LIMIT_USAGE_LOOKS;
}

struct usage_now workspace_look(struct workspace *workspace)
{
	uint64_t group = cell_group(workspace->cell);

	if (workspace->all->cgroups < 0 || group == 0)
		return usage_unknown;
	if (may_look(workspace))
		cell_look_again(&workspace->look, workspace->all->cgroups, group);
	return workspace->look.group == group ? workspace->look.usage : usage_unknown;
}
