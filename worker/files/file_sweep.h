/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/files/root_open.h"

/**
 * Removes what writes that died have left: regular files of the name .cloister-<16 hex digits> that
 * nobody has open for writing. Walks the whole workspace at idle priority, so it is for a process
 * of its own. sched(7), fcntl(2) on leases.
 */
void file_sweep(const struct root *root);
