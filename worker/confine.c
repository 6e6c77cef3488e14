// SPDX-License-Identifier: Apache-2.0
#include "worker/confine.h"

#include "common/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>

static void free_capabilities(cap_t *capabilities)
{
	if (*capabilities)
		cap_free(*capabilities);
}

int confine_die_with_parent(void)
{
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ? -errno : 0;
}

int confine_no_new_privs(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

int confine_non_dumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

int confine_keep_capabilities(const cap_value_t *keep, int n)
{
	_cleanup_(free_capabilities) cap_t capabilities = cap_init();

	if (!capabilities)
		return -ENOMEM;
	if (n > 0 && (cap_set_flag(capabilities, CAP_EFFECTIVE, n, keep, CAP_SET) < 0 ||
			     cap_set_flag(capabilities, CAP_PERMITTED, n, keep, CAP_SET) < 0))
		return -errno;
	if (cap_reset_ambient() < 0)
		return -errno;
	return cap_set_proc(capabilities) < 0 ? -errno : 0;
}

int confine_empty_bounding_set(void)
{
	for (cap_value_t c = 0; cap_get_bound(c) >= 0; c++)
		if (cap_drop_bound(c) < 0)
			return -errno;
	return 0;
}

int confine_pass_on_capabilities(const cap_value_t *capabilities, int n)
{
	_cleanup_(free_capabilities) cap_t current = cap_get_proc();

	if (!current || cap_set_flag(current, CAP_INHERITABLE, n, capabilities, CAP_SET) < 0 ||
		cap_set_proc(current) < 0)
		return -errno;
	for (int i = 0; i < n; i++)
		if (cap_set_ambient(capabilities[i], CAP_SET) < 0)
			return -errno;
	return 0;
}

int confine_check_connected(int fd)
{
	struct pollfd poll_fd = {.fd = fd};

	if (poll(&poll_fd, 1, 0) < 0)
		return -errno;
	return poll_fd.revents & (POLLHUP | POLLERR | POLLNVAL) ? -EPIPE : 0;
}
