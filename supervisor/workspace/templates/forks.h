/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Forks: managed workspaces that begin with a template's files. In user mode they all have one id,
 * and a fork is an empty workspace whose layers lie above the template: it takes the same short
 * time however large that is. In system mode each fork has another id, and the template's files
 * must belong to it. Where the configuration has template_memory, the spawner shows each fork a
 * template in memory as its own; otherwise, or if memory is short, it copies the files. In all
 * three ways a fork gets its name when it is complete.
 */

#include "common/layer_stack.h"
#include "supervisor/base/refusal.h"
#include "supervisor/workspace/templates/forking.h"

#include <stdint.h>

struct forking;
struct properties;
struct tenant;
struct workspaces;

struct forks_wanted {
	struct text template, prefix; /* without a prefix, the template's name is it */
	uint32_t count;
	bool as_root;                  /* each is a whole root, which commands see as "/" */
	const struct properties *with; /* that each of them keeps; NULL: none */
};

/**
 * Begins to make the forks @wanted of a template of the tenant's, whose names are the prefix, "-"
 * and a number. Returns TOOL_OK: @made is called later, unless forking_free() is called before; or
 * a code with @ret_refusal filled in. If one cannot be made, none stays.
 */
enum tool_error forks_begin(struct workspaces *all, struct tenant *tenant,
	const struct forks_wanted *wanted, forks_made made, void *context, struct forking **ret,
	struct refusal *ret_refusal);

/** Ends it, and clears forks that have no name yet. NULL is allowed. */
void forking_free(struct forking *forking);

/** At the end of the service: removes the forks of incomplete requests. */
void forks_stop(struct workspaces *all);

/** Whether the unfinished forks are copies, which may take long, and have their ids. */
bool forks_are_copied(const struct workspaces *all);
