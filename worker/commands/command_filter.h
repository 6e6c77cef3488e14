/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/**
 * cloister-worker: puts this process, and with it every command, under the filter of commands
 * (worker/filters/commands.c). @ret_pass is what the calls need that only worker and inits make
 * (worker/filters/filter_pass.h). 0 or -errno.
 */
int command_filter_install(uint64_t *ret_pass);
