/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The member "isolation" of workspace.open's answer, and the parameter that narrows it. */

#include "common/errors.h"

struct cgroup;
struct json_object;
struct json_text;
struct refusal;
struct workspace;

/** Writes the confinement that @workspace, which is open, really has. */
void isolation_write(
	struct json_text *json, const struct cgroup *cgroup, const struct workspace *workspace);

/**
 * Reads network.allow of workspace.open's @params: rules, which @ret_allow gets separated by
 * blanks, malloc'ed. Untouched if @params has no network. Refuses rules that cloister-egress would
 * not understand. A rule may exceed the tenant's rules, because both must allow a connection.
 * Returns TOOL_OK, or a code with @ret_refusal filled in.
 */
enum tool_error isolation_read_allow(
	struct json_object *params, char **ret_allow, struct refusal *ret_refusal);
