/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/**
 * Copies the file @name of the host's /etc, at @host, to @etc if it is a regular file that
 * everybody may read, of at most 64 KiB. Returns 0, also if it was not copied, or -errno.
 */
int etc_copy(int host, int etc, const char *name);

/**
 * Writes the generated files of a workspace's /etc into the directory @etc; @home is the home of
 * user agent. @has_network: look-ups are answered. Returns 0 or -errno.
 */
int etc_write_synthesised(int etc, const char *home, bool has_network);
