/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/**
 * Writes the generated files of a workspace's /etc into the directory @etc; @home is the home of
 * user agent. @has_network: look-ups are answered. Returns 0 or -errno.
 */
int etc_write_synthesised(int etc, const char *home, bool has_network);
