/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Says on stderr what in the workspace @directory commonly leads outside of it, where commands see
 * nothing: the repository of a linked git worktree, and the Python of a virtual environment. @shown
 * are the paths of --readonly-path, ended by NULL. git-worktree(1)
 */
void links_outside_tell(const char *directory, const char *const *shown);
