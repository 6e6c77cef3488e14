/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * System calls of commands that the worker decides on, because the filter cannot:
 * seccomp_unotify(2). Without a listener these calls fail with ENOSYS.
 */
struct unotify {
	int listener;
	uint64_t cookie;  /* worker/filters/filter_cookie.h */
	unsigned sockets; /* of NETLINK_ROUTE: there are at most so many */
};

/** Answers one call, if one waits. The listener must have been found readable by poll(2). */
void unotify_answer(struct unotify *notify);
