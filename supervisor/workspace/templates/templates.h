/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Templates: trees of files that managed workspaces are forked from, TENANT/NAME in "templates" of
 * the state directory. Names of directories are the only record. An existing template is complete,
 * because a copy gets its name at its end; the layers of a fork name its tree (layers.h). Only
 * names in the state directory are looked up here.
 *
 * A template that is replaced gets another tree: TENANT/NAME~2, then NAME~3. The newest is forked.
 * An older one exists until no fork shows it, and counts as a template.
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
	bool replaced;   /* by a newer one of its name; forks go on with it */
	int64_t bytes;   /* that it takes on disk; -1: not measured yet */
};

/** Returns the name of the directory that has the tenant's templates and managed workspaces. */
const char *tenant_directory(const struct tenant *tenant);

/**
 * Stores the name of the tree that a fork of the template @name, which may be any text, begins
 * with. Returns 1, 0 if the tenant has no such template, or -errno.
 */
int template_newest(const struct workspaces *all, const struct tenant *tenant, struct text name,
	char ret[LIMIT_TEMPLATE_TREE_BYTES + 1]);

/** Gives each of the tenant's templates to @each, sorted by name, and replaced ones first. Returns
 * 0 or -errno. */
int templates_each(const struct workspaces *all, const struct tenant *tenant,
	void (*each)(void *context, const struct template_info *info), void *context);

/**
 * Drops replaced templates that no fork shows, and lets the spawner measure those that have no size
 * yet.
 */
void templates_measure(const struct workspaces *all, const struct tenant *tenant);

/** The tree @name was measured. */
void template_measured(const struct workspaces *all, const struct tenant *tenant, struct text name,
	uint64_t bytes);

/** A fork of @tree is gone, or a copy of it was made: drops it if it is replaced and unused. */
void template_let_go(const struct workspaces *all, const struct tenant *tenant, const char *tree);

/** Returns how many templates the tenant has, with replaced ones, below @managed_fd. */
size_t templates_count(int managed_fd, const struct tenant *tenant);

/**
 * Whether the tenant may have one more template, called @name, which may @replace another. Returns
 * TOOL_OK, or a code with @ret_refusal filled in.
 */
enum tool_error template_check_new(const struct workspaces *all, const struct tenant *tenant,
	struct text name, bool replace, struct refusal *ret_refusal);

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
 * Gives a complete template its @name. With @replace, a template of that name is replaced. Returns
 * 1 if one was replaced, 0 if there was none, or -errno with the refusal.
 */
int template_name(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished, const char *name, bool replace,
	struct refusal *ret_refusal);

/** Whether the spawner has given the tree of a fork to the id that it will have. */
bool unfinished_has_id(const struct workspaces *all, const struct tenant *tenant,
	const struct unfinished *unfinished);

/** Lets the spawner delete the copy. */
void unfinished_drop(const struct workspaces *all, const struct tenant *tenant, bool template,
	const struct unfinished *unfinished);

/** Removes the template @name, with those that it has replaced. Returns TOOL_OK, or a code with
 * @ret_refusal filled in. */
enum tool_error template_remove(const struct workspaces *all, const struct tenant *tenant,
	struct text name, struct refusal *ret_refusal);
