// SPDX-License-Identifier: Apache-2.0
#include "common/socket_peer.h"

#include <stdio.h>
#include <string.h>
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

char *control_socket_beside(const char *agent_socket)
{
	static const char agent[] = "agent.sock";
	size_t len = strlen(agent_socket), name = sizeof(agent) - 1;
	bool is_agent = len >= name && strcmp(agent_socket + len - name, agent) == 0 &&
			(len == name || agent_socket[len - name - 1] == '/');
	char *path;
	int r = is_agent ? asprintf(&path, "%.*scontrol.sock", (int)(len - name), agent_socket)
			 : asprintf(&path, "%s.control", agent_socket);

	return r < 0 ? NULL : path;
}
