/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In place of open(2) and fopen(3): files of the kernel's that hold what the test says. */

/** From now on the file @path is one that holds @text; NULL: it is not there. All forgotten with
 * @path NULL. */
void fake_path_set(const char *path, const char *text);
