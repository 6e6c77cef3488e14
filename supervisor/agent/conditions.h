/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sentence for a model about its commands in a workspace: network, root, terminal, shell, which
 * files stay, and limits. Runs in cloisterd; only values of the configuration are in the text.
 */

#include <stddef.h>
#include <stdint.h>

struct cgroup;
struct tenant;
struct workspace;

#define CONDITIONS_SIZE 768

/**
 * Writes it as one sentence. @offered: the set that the client is offered (enum tool_set).
 * @workspace may be NULL: then it holds for all of @tenant's. @cgroup says which limits are
 * enforced: the others are left out.
 */
const char *conditions_text(const struct tenant *tenant, uint64_t offered,
	const struct workspace *workspace, const struct cgroup *cgroup,
	char buffer[static CONDITIONS_SIZE]);
