// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd as the first step of its start. */
#include "supervisor/host/listen_fds.h"

#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LISTEN_FDS_START 3 /* sd_listen_fds(3) */
#define LISTEN_FDS_MAX   3 /* agent and control socket, and that of cloister-egress */

static int option_of(int fd, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -1 : value;
}

static int take_listen_fd(int fd, struct text name, unsigned number, struct listen_fds *fds)
{
	int *place = NULL;

	if (text_equal(name, TEXT_LITERAL("agent")) || (!name.data && number == 0))
		place = &fds->agent;
	else if (text_equal(name, TEXT_LITERAL("control")) || (!name.data && number == 1))
		place = &fds->control;
	else if (text_equal(name, TEXT_LITERAL("egress")))
		place = &fds->egress;
	if (!place || *place >= 0)
		return -EINVAL;
	if (option_of(fd, SO_DOMAIN) != AF_UNIX || option_of(fd, SO_TYPE) != SOCK_STREAM ||
		option_of(fd, SO_ACCEPTCONN) != 1)
		return -ENOTSOCK;
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*place = fd;
	return 0;
}

static int take_all(const char *names, struct listen_fds *fds, const char **ret_message)
{
	struct text rest = text_from(names);

	for (unsigned i = 0; i < fds->count; i++) {
		struct text name = names ? text_take(&rest, ':') : (struct text){NULL, 0};
		int r = take_listen_fd(LISTEN_FDS_START + (int)i, name, i, fds);

		if (r < 0) {
			*ret_message = r == -EINVAL
					       ? "a socket that was passed is not named \"agent\", "
						 "\"control\" or \"egress\", or two have the same "
						 "name: set "
						 "FileDescriptorName= in its .socket unit"
					       : "a descriptor that was passed is not a listening "
						 "Unix stream socket: set ListenStream= to a path";
			return -EINVAL;
		}
	}
	if (fds->count > 0 && fds->agent < 0) {
		*ret_message = "a control socket was passed, but no agent socket";
		return -EINVAL;
	}
	return 0;
}

int listen_fds_take(struct listen_fds *ret, const char **ret_message)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	struct listen_fds fds = {.agent = -1, .control = -1, .egress = -1};
	int r = 0;

	/* The variables may be inherited from another process: check the pid. */
	if (pid && count && strtol(pid, NULL, 10) == (long)getpid()) {
		long number = strtol(count, NULL, 10);

		fds.count = number >= 0 && number <= LISTEN_FDS_MAX ? (unsigned)number : 0;
		if ((long)fds.count != number) {
			*ret_message = "more than three sockets were passed: pass one agent socket "
				       "and at most one control socket and one for cloister-egress";
			r = -EINVAL;
		} else {
			r = take_all(getenv("LISTEN_FDNAMES"), &fds, ret_message);
		}
	}
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	*ret = fds;
	return r;
}
