// SPDX-License-Identifier: Apache-2.0
#include "common/socket_peer.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

bool socket_peer_is_believed(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct stat directory;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return false;
	if (peer.uid == 0 || peer.uid == geteuid())
		return true;
	return lstat(SERVICE_SOCKET_DIRECTORY, &directory) == 0 && directory.st_uid == peer.uid;
}
