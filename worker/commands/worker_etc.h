/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Writes the generated files of a workspace's /etc into the directory @etc; @home is the home of
 * user agent. Returns 0 or -errno.
 */
int etc_write_synthesised(int etc, const char *home);
