/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/files/root_open.h"

/** The part of the files process's set-up that needs nothing of a workspace, and comes first. As
 * files_setup. */
int files_setup_ahead(struct root *root, const char **ret_step);

/** Lets go of what is left of set-up: a mount that the kernel then takes apart, which waits for all
 * CPUs and is done when nobody waits for this process. */
void files_setup_done(struct root *root);

/**
 * Runs the rest of the files process's ordered set-up and fills @root, whose visible field the
 * caller has set. What then lacks is the system call filter, which takes the kernel long and cannot
 * fail for anything that a host lacks or a workspace is. 0, or -errno with the failed step's name
 * in @ret_step.
 */
int files_setup(struct root *root, const char **ret_step);
