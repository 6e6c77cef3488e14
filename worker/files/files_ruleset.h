/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Restricts the files process by Landlock: it can write only beneath @root, create only directories
 * and regular files, and execute nothing. Needs no_new_privs. Returns 0 or -errno.
 */
int files_ruleset_enforce(int root);
