/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The kernel's answers to questions about sockets: sock_diag(7). */

#include <stdint.h>

struct nlmsghdr;

/**
 * Returns the inode of the cgroup of the socket that the answer @header is about, or 0 where the
 * kernel does not say (before Linux 5.8). @header is complete and holds a struct inet_diag_msg.
 */
uint64_t sock_diag_cgroup(const struct nlmsghdr *header);
