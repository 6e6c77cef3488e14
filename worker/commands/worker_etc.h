/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** Writes the synthesised files of a workspace's /etc into the directory @etc; @home is the
 * agent's. 0 or -errno. */
int etc_write_synthesised(int etc, const char *home);
