/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/files/root_open.h"

/** The part of the files process's set-up that needs nothing of a workspace, and comes first. As
 * files_setup. */
int files_setup_ahead(struct root *root, const char **ret_step);

/**
 * Runs the rest of the files process's ordered set-up and fills @root, whose visible field the
 * caller has set. 0, or -errno with the failed step's name in @ret_step.
 */
int files_setup(struct root *root, const char **ret_step);
