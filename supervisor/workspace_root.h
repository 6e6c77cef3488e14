/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The directory that becomes a workspace: opened once, O_PATH, to check policy on what was opened
 * and to hand it to the spawner. This is the one touch that cloisterd makes; it never looks inside.
 */

#include "common/errors.h"
#include "common/text.h"
#include "common/wire_spawner.h"

#include <sys/types.h>

struct workspace_root {
	int fd;     /* O_PATH directory */
	char *path; /* canonical, as the kernel names it */
	dev_t dev;
	ino_t ino;
};

/**
 * Opens @path (absolute) as the root of a workspace of @kind. @own_directories (ended by NULL) are
 * cloister's, canonical: a workspace that contains one is FORBIDDEN. TOOL_OK and *ret_root, to be
 * released with workspace_root_done; otherwise the code and a sentence in @ret_message (malloc'ed,
 * may be NULL).
 */
enum tool_error workspace_root_open(struct text path, enum workspace_kind kind,
	const char *const *own_directories, struct workspace_root *ret_root, char **ret_message);

/**
 * Whether the user that a workspace at @root runs as may enter it: its owner if @owned (system
 * mode), otherwise the user that we are. TOOL_OK, or TOOL_PERMISSION_DENIED with who may not and
 * what to do in @ret_message (malloc'ed, may be NULL). Nothing is looked up by name: access(2) on
 * the descriptor.
 */
enum tool_error workspace_root_check_entry(
	const struct workspace_root *root, bool owned, char **ret_message);

/** From now on workspace_root_open() refuses every directory but the one of this device, inode and
 * owner: a private instance that root started has been given the id of that directory's owner. */
void workspace_root_only(dev_t dev, ino_t ino, uid_t uid);

/** The canonical path of the open directory @fd, malloc'ed; NULL when it has none or memory is out.
 */
char *workspace_root_canonical_path(int fd);

void workspace_root_done(struct workspace_root *root);
