/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces supervisor/base/fd_closer.c without a thread, on a kernel of the test's choice. */

#include "supervisor/base/fd_closer.h"

/* Whether the kernel refuses descriptors, as Linux 6.16 and later do. */
extern bool fake_fd_closer_refuses;

/* The errno with which nothing more is received; 0: none. */
extern int fake_fd_closer_error;

/* How many sockets fd_closer_end() was given. */
extern unsigned fake_fd_closer_ended;
