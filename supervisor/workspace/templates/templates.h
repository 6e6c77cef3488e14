/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Templates: trees of files that managed workspaces are forked from, TENANT/NAME in "templates" of
 * the state directory. Names of directories are the only record. An existing template is complete,
 * because a copy gets its name at its end; the layers of a fork name its template (layers.h). Only
 * names in the state directory are looked up here.
 */

#include "common/layer_stack.h"
#include "supervisor/base/refusal.h"

#include <stdint.h>

struct tenant;
struct workspaces;

/* The name of a tree that is being copied or deleted. */
struct unfinished {
	char name[96];
};

struct template_info {
	const char *name;
	int64_t made_ms; /* since the epoch; 0: not known */
	size_t forks;    /* workspaces that show it below their own files */
	int64_t bytes;   /* that it takes on disk; -1: not measured yet */
};

/** Returns the name of the directory that has the tenant's templates and managed workspaces. */
const char *tenant_directory(const struct tenant *tenant);

/** Whether the tenant has the template @name, which may be any text. */
bool template_exists(const struct workspaces *all, const struct tenant *tenant, struct text name);

/** Gives each of the tenant's templates to @each. Returns 0 or -errno. */
int templates_each(const struct workspaces *all, const struct tenant *tenant,
	void (*each)(void *context, const struct template_info *info), void *context);

/** Lets the spawner measure the tenant's templates that have no size yet. */
void templates_measure(const struct workspaces *all, const struct tenant *tenant);

/** The template @name was measured. */
void template_measured(const struct workspaces *all, const struct tenant *tenant, struct text name,
	uint64_t bytes);

/** Returns how many templates the tenant has, below @managed_fd. */
size_t templates_count(int managed_fd, const struct tenant *tenant);

/**
 * Whether the tenant may have one more template, called @name. Returns TOOL_OK, or a code with
 * @ret_refusal filled in.
 */
enum tool_error template_check_new(const struct workspaces *all, const struct tenant *tenant,
	struct text name, struct refusal *ret_refusal);

/**
 * Makes an empty directory for a copy: of a workspace with @template, otherwise of a template, in
 * the managed workspaces. Returns 0 or -errno.
 */
int unfinished_make(const struct workspaces *all, const struct tenant *tenant, bool template,
	struct unfinished *ret);

/** The copy is complete: gives it its name, which nothing has yet. Returns 0 or -errno. */
int unfinished_name(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished, const char *name);

/**
 * Gives a complete template its @name, unless another one has got that name meanwhile. Returns 0,
 * or -errno with the refusal.
 */
int template_name(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished, const char *name, struct refusal *ret_refusal);

/** Whether the spawner has given the tree of a fork to the id that it will have. */
bool unfinished_has_id(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished);

/** Lets the spawner delete the copy. */
void unfinished_drop(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished);

/** Removes the template @name. Returns TOOL_OK, or a code with @ret_refusal filled in. */
enum tool_error template_remove(const struct workspaces *all, const struct tenant *tenant,
	struct text name, struct refusal *ret_refusal);
