/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether the current directory may be the workspace when the user has named none. */

/**
 * Refuses @directory, a real path, where an agent would reach the user's account instead of a
 * project: the root directory, the home directory and directories above it, and a directory at,
 * above or below private keys or the configuration of an agent's program. Programs that start an
 * MCP server often do so in such a directory. Returns 0, -EACCES after printing why and what to do,
 * or -ENOMEM.
 */
int default_workspace_check(const char *directory);
