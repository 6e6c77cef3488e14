/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory that becomes a workspace. It is opened once with O_PATH, checked by that
 * descriptor, and passed to the spawner. cloisterd does not look it up itself, because its file
 * system may hang and the loop serves all clients. A path whose text is not below a root of the
 * tenant is refused at once; any other path is looked up by a path resolver, a child of the
 * spawner.
 */

#include "common/directory_parents.h"
#include "common/errors.h"
#include "common/text.h"
#include "common/wire/wire_spawner.h"
#include "supervisor/base/refusal.h"

#include <sys/types.h>

struct root_look;
struct spawner_link;
struct tenant;

struct workspace_root {
	int fd;     /* O_PATH directory */
	char *path; /* canonical path, from the kernel */
	dev_t dev;
	ino_t ino;
	/* The directory and its parents when it was opened; not set for a managed workspace. */
	struct directory_id *parents;
	size_t n_parents;
	bool may_enter; /* cloister's own user may enter it; not set for a managed workspace */
};

/*
 * @error is TOOL_OK, with @root, which the function takes; or a code and a sentence (may be NULL).
 */
typedef void (*root_looked_up)(
	void *context, const struct refusal *refusal, struct workspace_root *root);

/**
 * Looks up the absolute path @path for @tenant (borrowed for the call). Returns TOOL_OK: @looked is
 * called exactly once, later, unless root_look_forget(@ret) comes before. Otherwise returns the
 * code, with @ret_refusal filled in; the path is then refused by its text alone, whether it exists
 * or not.
 */
enum tool_error root_look_begin(struct spawner_link *spawner, const struct tenant *tenant,
	struct text path, root_looked_up looked, void *context, struct root_look **ret,
	struct refusal *ret_refusal);

void root_look_forget(struct root_look *look);

/**
 * Whether @root may be the root of a workspace of @kind. It must not belong to a file system of the
 * kernel's own, and must neither contain nor lie in one of @own_directories (canonical, ended by
 * NULL), which are cloister's. Returns TOOL_OK; otherwise the code, with @ret_refusal filled in.
 */
enum tool_error workspace_root_check(const struct workspace_root *root, enum workspace_kind kind,
	const char *const *own_directories, struct refusal *ret_refusal);

/**
 * Checks whether the user that a workspace at @root runs as may enter the directory: its owner if
 * @owned (system mode), otherwise cloister's user. Returns TOOL_OK, or TOOL_PERMISSION_DENIED with
 * the user and the remedy in @ret_refusal. Looks up no name: access(2) on the descriptor.
 */
enum tool_error workspace_root_check_entry(
	const struct workspace_root *root, bool owned, struct refusal *ret_refusal);

/**
 * From now on root_look_begin() refuses every directory except the one with this device, inode and
 * owner: a private instance that root started has become that directory's owner.
 */
void workspace_root_only(dev_t dev, ino_t ino, uid_t uid);

/**
 * The answer to a client of a tenant with roots, whether the directory exists or not. Static
 * storage.
 */
extern const char workspace_root_not_among[];

void workspace_root_done(struct workspace_root *root);
