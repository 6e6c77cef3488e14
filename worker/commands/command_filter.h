/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * Puts the worker, and with it every command, under the commands' system call filter
 * (worker/filters/commands.c); with @root_inside commands can be made to enter their user
 * namespace. @ret_cookie is the cookie for the system calls that only
 * the worker and inits may make (worker/filters/filter_cookie.h). Returns 0 or -errno.
 */
int command_filter_install(bool root_inside, uint64_t *ret_cookie);
