// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. A model pays for every word here. */
#include "supervisor/agent/conditions.h"

#include "common/limits.h"
#include "common/tools.h"
#include "common/wire/wire_commands.h"
#include "supervisor/config/tenant.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/workspace/limits.h"
#include "supervisor/workspace/workspace.h"

#include <inttypes.h>
#include <stdio.h>

#define TIME_SIZE 32

static const char *show_time(uint64_t ms, char buffer[static TIME_SIZE])
{
	if (ms % 60000 == 0)
		snprintf(buffer, TIME_SIZE, "%" PRIu64 " min", ms / 60000);
	else if (ms % 1000 == 0)
		snprintf(buffer, TIME_SIZE, "%" PRIu64 " s", ms / 1000);
	else
		snprintf(buffer, TIME_SIZE, "%" PRIu64 " ms", ms);
	return buffer;
}

static const char *network(const struct tenant *tenant)
{
	return tenant->network == TENANT_NETWORK_NONE ? "no network; "
						      : "network to allowed hosts only; ";
}

/* In a whole root the system belongs to the workspace. */
static const char *root(const struct workspace *workspace)
{
	if (workspace && workspace_root_inside(workspace))
		return "root of this workspace's files alone: no other users, no mounts, apt-get "
		       "takes -o APT::Sandbox::User=root";
	return workspace && workspace_is_root(workspace)
		       ? "no root or sudo"
		       : "no root or sudo, and the system is read-only";
}

static const char *shell(const struct tenant *tenant)
{
	static const char *const texts[COMMAND_SHELLS] = {
		[COMMAND_SHELL_AUTO] = "bash if there is one, else sh",
		[COMMAND_SHELL_SH] = "sh",
		[COMMAND_SHELL_BASH] = "bash",
	};

	return texts[tenant->shell];
}

static const char *persistence(const struct tenant *tenant)
{
	return tenant->home == TENANT_HOME_KEPT
		       ? "files in the workspace and in HOME stay, /tmp is emptied when it closes"
		       : "files in the workspace stay, HOME and /tmp are emptied when it closes";
}

const char *conditions_text(const struct tenant *tenant, uint64_t offered,
	const struct workspace *workspace, const struct cgroup *cgroup,
	char buffer[static CONDITIONS_SIZE])
{
	const struct tenant_limits *limits = &tenant->limits;
	const struct command_limits command = limits_of_command(limits);
	char time[TIME_SIZE], most[TIME_SIZE], memory[64] = "";
	const bool counts_processes =
		cgroup_enforcer_of_processes(cgroup) == CGROUP_ENFORCER_CGROUP;

	if (cgroup_enforcer_of_memory(cgroup) != CGROUP_ENFORCER_NONE)
		snprintf(memory, sizeof(memory), ", %" PRIu64 " MiB of memory",
			(uint64_t)(command.memory_bytes / MIB));
	snprintf(buffer, CONDITIONS_SIZE,
		"%s%s; list_directory and search_files leave out what .gitignore names; "
		"no terminal: use -y or give stdin; commands are run by %s; %s, and what a "
		"command leaves running ends with its call%s; a command may take %s, with "
		"timeout_ms "
		"up to %s%s; %s may have %" PRIu32 " processes",
		network(tenant), root(workspace), shell(tenant), persistence(tenant),
		offered & TOOLS_SESSIONS ? ", unless it has background=true" : "",
		show_time(limits->command_timeout_ms < limits->command_timeout_max_ms
				  ? limits->command_timeout_ms
				  : limits->command_timeout_max_ms,
			time),
		show_time(limits->command_timeout_max_ms, most), memory,
		counts_processes ? "it" : "all of this workspace together", command.processes);
	return buffer;
}
