/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/files/walk/root_open.h"

/**
 * Runs the first part of the files process's set-up, which needs no workspace. Returns like
 * files_setup().
 */
int files_setup_ahead(struct root *root, const char **ret_step);

/**
 * Closes the last mount of set-up. The kernel then waits for all CPUs, so call this when no request
 * waits.
 */
void files_setup_done(struct root *root);

/**
 * Runs the rest of the ordered set-up and fills in @root, whose visible field the caller has set.
 * The system call filter is not installed yet: that takes the kernel long, and cannot fail for
 * anything that the host lacks or the workspace contains. Returns 0, or -errno with the failed
 * step's name in @ret_step.
 */
int files_setup(struct root *root, const char **ret_step);
