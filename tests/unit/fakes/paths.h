/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces open(2) and fopen(3) for files of the kernel, to which the test gives other contents. */

/**
 * From now on the file @path contains @text; with @text NULL it does not exist. With @path NULL,
 * all paths are the kernel's again.
 */
void fake_path_set(const char *path, const char *text);
