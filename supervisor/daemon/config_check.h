/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * cloisterd --check: prints every mistake of the configuration at @path to stderr, or nothing if
 * there is none. Returns the exit status of the process.
 */
int config_check(const char *path);
