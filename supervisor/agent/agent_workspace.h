/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/text.h"

struct session;
struct workspace;

/**
 * Returns, held, the workspace that the client has opened as @name (data NULL: its default one), or
 * the managed one of that name which is there and not open. NULL: there is none.
 */
struct workspace *agent_hold_workspace(struct session *session, struct text name);
