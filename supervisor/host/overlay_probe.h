/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the file system of the state directory carries an overlay that an unprivileged user
 * mounts, as workspaces with checkpoints need it: a child mounts one in new namespaces, and changes
 * files in it. NFS, Lustre, FUSE and overlays do not. overlayfs:
 * Documentation/filesystems/overlayfs.rst
 */

#include <stdbool.h>

/**
 * Tries it, before lock-down, in @state_dir, or in the nearest directory above it that exists, in a
 * directory that it removes.
 */
void overlay_probe(const char *state_dir);

/** Returns what overlay_probe() found; false without it. */
bool overlay_probe_works(void);

/** Returns what to do where it does not. Static storage. */
const char *overlay_probe_remedy(void);
