/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Merges two adjacent layers, which never change, into one. An overlay shows the same files with it
 * in place of both. Files are hard links, so only directories take room, and the time depends on
 * the number of entries alone. overlayfs: Documentation/filesystems/overlayfs.rst
 */

/**
 * Fills the empty directory @to with the layer @high above @low, all of one mount and one id.
 * Returns 0 or -errno; then @to has a part of it.
 */
int layer_merge(int low, int high, int to);
