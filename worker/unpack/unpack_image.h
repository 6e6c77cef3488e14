/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads an image in the OCI image layout, which is a directory: the manifest of the one image for
 * this processor, then its layers from the lowest, each by its digest. Nothing is read from
 * elsewhere. Image Layout Specification 1.1, Image Layer Filesystem Changeset.
 */

#include "worker/unpack/unpack_tree.h"

/** Unpacks the image in the directory @layout. Returns as the functions of unpack_tree.h. */
int unpack_image(struct unpack_tree *tree, int layout);
