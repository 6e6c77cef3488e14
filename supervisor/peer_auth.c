// SPDX-License-Identifier: Apache-2.0
#include "supervisor/peer_auth.h"

#include <sys/socket.h>
#include <unistd.h>

bool peer_auth_allows(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || size != sizeof(peer))
		return false;
	return peer.uid == geteuid();
}
