/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reports a refused request of an agent to the audit log and to watchers of events. */

#include "common/text.h"

struct refusal;
struct client;
struct workspace;

/**
 * A call that never began. @workspace, @tool (as the client named it) and @message may be NULL.
 */
void agent_call_refused(const struct client *client, const struct workspace *workspace,
	const char *tool, const char *code, const char *message);

/** @method, "workspace.open" or "workspace.remove", for the workspace @name, which may be empty. */
void agent_workspace_refused(const struct client *client, const char *method, struct text name,
	const struct refusal *refusal);
