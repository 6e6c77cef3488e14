/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Bits that choose one of the compiled filters. */
enum command_filter {
	COMMAND_FILTER_PLAIN = 0,
	COMMAND_FILTER_INSIDE = 1,  /* commands can be made to enter their user namespace */
	COMMAND_FILTER_NESTING = 2, /* they may install filters: command_filters */
	COMMAND_FILTERS = 4,
};

/**
 * Installs the commands' system call filter for the bits @which (worker/filters/commands.c) in the
 * worker; commands inherit it. @ret_cookie is the cookie for the system calls that only the worker
 * and inits may make (worker/filters/filter_cookie.h), and @ret_listener the descriptor by which
 * the worker decides on some calls (worker/commands/unotify.h), or -1. Returns 0 or -errno.
 */
int command_filter_install(unsigned which, uint64_t *ret_cookie, int *ret_listener);
