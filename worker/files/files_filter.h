/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/** cloister-files: leaves this process and its jobs what file tools take (worker/filters/files.c);
 * any other system call kills. 0 or -errno. */
int files_filter_install(void);
