/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/**
 * Puts the files process and its jobs under their system call filter (worker/filters/files.c),
 * which kills on any other call. Returns 0 or -errno.
 */
int files_filter_install(void);
