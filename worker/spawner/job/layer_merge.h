/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes one layer of two that lie one on the other and never change: an overlay shows the same with
 * it in the place of both. Files are linked, so it takes no room but that of directories, and no
 * longer than there are entries in the two. overlayfs: Documentation/filesystems/overlayfs.rst
 */

/**
 * Fills the empty directory @to with the layer @high above @low, all of one mount and one id.
 * Returns 0 or -errno; then @to has a part of it.
 */
int layer_merge(int low, int high, int to);
