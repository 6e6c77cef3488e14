// SPDX-License-Identifier: Apache-2.0
/* Runs in the worker, before it drops its capabilities, and in the spawner. netdevice(7). */
#include "worker/loopback.h"

#include "common/cleanup.h"

#include <errno.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int loopback_raise(void)
{
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo"};

	if (fd < 0)
		return -errno;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}
