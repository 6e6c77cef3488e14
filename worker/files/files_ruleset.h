/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** The files process stands behind Landlock: it writes beneath @root alone, makes directories and
 * regular files alone, and executes nothing. Needs no_new_privs. 0 or -errno. */
int files_ruleset_enforce(int root);
