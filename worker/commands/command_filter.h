/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/**
 * Puts the worker, and with it every command, under the commands' system call filter
 * (worker/filters/commands.c). @ret_cookie is the cookie for the system calls that only
 * the worker and inits may make (worker/filters/filter_cookie.h). Returns 0 or -errno.
 */
int command_filter_install(uint64_t *ret_cookie);
