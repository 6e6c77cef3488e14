/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many managed workspaces of a tenant exist, open or not, or are removed and not cleared yet:
 * the number of its directories in the state directory. They are counted when the tenant is first
 * served, and the number is updated from then on. Each takes a name, inodes and, in system mode, an
 * id of a range that all tenants share.
 */

#include "common/errors.h"
#include "supervisor/base/refusal.h"

struct config;
struct tenant;

/**
 * Counts the workspaces of each tenant of @config (borrowed until the next call) that has not been
 * counted yet, below @managed_fd, or -1.
 */
void managed_quota_follow(int managed_fd, const struct config *config);

/** Counts those of each tenant again: another generation of cloisterd has made and removed some. */
void managed_quota_count(int managed_fd, const struct config *config);

/**
 * Whether @tenant may have one more managed workspace. The limit is its workspaces_existing. In
 * system mode, once half of the ids for managed workspaces are in use, a tenant also gets at most
 * its share of the other half, so that each tenant finds some left. Returns TOOL_OK; otherwise
 * TOOL_QUOTA_EXCEEDED, or TOOL_BUSY if they cannot be counted, with @ret_refusal filled in.
 */
enum tool_error managed_quota_check(
	int managed_fd, const struct tenant *tenant, struct refusal *ret_refusal);

/** The same for @more of them at once. */
enum tool_error managed_quota_check_many(
	int managed_fd, const struct tenant *tenant, size_t more, struct refusal *ret_refusal);

/** Returns the tenant whose directory is called @directory; NULL: there is none now. */
const struct tenant *managed_quota_tenant(struct text directory);
