/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of templates that are snapshots of sandboxes. cloisterd keeps nothing of a template but its
 * name and files, so the name has what a snapshot needs: the sandbox, whether it was a whole root,
 * and the name that the client gave: "snap.ID.m.XXXXXXXX.NAME", or "fork.…" for a template that
 * only forks are made of. Pure functions.
 */

#include "gate/e2b/sandbox_id.h"

enum { SNAPSHOT_NAME_BYTES = 64, SNAPSHOT_LABEL_BYTES = 26 };

struct snapshot_name {
	struct text id, label; /* borrowed; the label may be empty */
	bool is_rootfs, is_for_forks;
};

/**
 * Makes a name of @parts. Returns 0, -EINVAL if the label is longer than SNAPSHOT_LABEL_BYTES or
 * has other characters than a template may have, or -errno of getrandom(2).
 */
int snapshot_name_make(
	const struct snapshot_name *parts, char ret_name[static SNAPSHOT_NAME_BYTES + 1]);

/** Returns whether @name is one, with *ret. */
bool snapshot_name_read(struct text name, struct snapshot_name *ret);

/** Returns whether the template @name is of a sandbox that is no whole root. */
bool snapshot_is_managed(struct text name);
