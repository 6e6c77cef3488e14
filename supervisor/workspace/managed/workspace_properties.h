/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The properties (properties.h) of a managed workspace that is in use. */

#include "supervisor/base/refusal.h"

#include <stdbool.h>

struct json_object;
struct properties;
struct workspace;

/** Reads what it keeps. For workspaces.c. Returns 0 or -errno. */
int workspace_read_properties(struct workspace *workspace);

/**
 * Replaces the given properties by those in @given. shown_at cannot be changed, and the network
 * only while no cell is open. Returns TOOL_OK, or a code with @ret_refusal filled in, and nothing
 * has changed.
 */
enum tool_error workspace_set_properties(
	struct workspace *workspace, const struct properties *given, struct refusal *ret_refusal);

const struct properties *workspace_properties(const struct workspace *workspace);

/** The variables that its commands get, an object of strings; NULL: none. */
struct json_object *workspace_env(const struct workspace *workspace);

/**
 * Its lease has ended. Until @expired is false again it cannot be opened, and openings that wait
 * for its cell are answered LEASE_ENDED.
 */
void workspace_set_expired(struct workspace *workspace, bool expired);
