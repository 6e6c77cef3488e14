/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The directories at the top of a whole root over which the worker mounts /proc, /dev, /tmp and
 * /run. An image with a single program may lack them. A fork gets them, in its own files. A
 * directory that a client opens as a root does not, because nothing is created there.
 */

/**
 * Creates the mount points that the directory @root lacks. The image is hostile, so no link in it
 * is followed. Returns 0; -SETUP_UNFIT if something else has one of the names, with a sentence
 * about it in @why of @size bytes; or -errno.
 */
int root_points_make(int root, char *why, size_t size);
