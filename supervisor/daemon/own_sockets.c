// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, before lock-down. It makes sockets at the paths of the options and the
 * configuration and trusts those, as it trusts the service manager. Whoever connects is hostile
 * until connection/listener.h has read its credentials.
 */
#include "supervisor/daemon/own_sockets.h"

#include "supervisor/config/config.h"
#include "supervisor/connection/listener.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/new_daemon.h"
#include "supervisor/host/startup.h"

#include <stdlib.h>
#include <sys/stat.h>

/*
 * A socket from the service manager, or from the generation before, replaces one of our own. The
 * path of one that cloisterd has made goes with the last generation.
 */
static void adopt_socket(struct daemon *daemon, int fd, bool owned, struct listener **ret)
{
	char *path = NULL;
	int r = listener_adopt(fd, ret, &path);

	if (r == 0 && path && owned)
		r = listener_own(*ret, path);
	if (r < 0)
		die("cannot use the socket that was passed", r);
	if (path)
		daemon_own_path(daemon, path);
	free(path);
}

/* @owned: cloisterd, in a generation before this one, has made the socket that was passed. */
static void bind_socket(struct daemon *daemon, int fd, bool owned, const char *path, mode_t mode,
	struct listener **ret)
{
	int r;

	if (fd >= 0)
		adopt_socket(daemon, fd, owned, ret);
	if (fd >= 0 || !path)
		return;
	r = startup_make_parent(path);
	if (r == 0)
		r = listener_bind(path, mode, ret);
	if (r < 0)
		die(path, r);
	daemon_own_path(daemon, path);
}

void own_sockets_bind(struct daemon *daemon)
{
	const struct config *config = daemon->service.config;
	const bool owned = daemon->new_daemon && new_daemon_owns_sockets(daemon->new_daemon);

	bind_socket(daemon, daemon->options.agent_fd, owned, daemon->options.agent_socket,
		(mode_t)config->host.agent_socket_mode, &daemon->listener);
	/*
	 * The peer's credentials decide; in user mode the socket's mode keeps other users out as
	 * well.
	 */
	bind_socket(daemon, daemon->options.control_fd, owned, daemon->options.control_socket,
		config->from_file ? 0666 : 0600, &daemon->control);
}

void own_sockets_bind_egress(struct daemon *daemon)
{
	const bool owned = daemon->new_daemon && new_daemon_owns_egress(daemon->new_daemon);

	bind_socket(daemon, daemon->options.egress_fd, owned,
		daemon->service.config->host.egress_socket, 0666, &daemon->egress);
}
