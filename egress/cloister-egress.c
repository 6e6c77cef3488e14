// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-egress: connects the programs of workspaces to the hosts that their tenant may reach,
 * and to no others. It has the sockets on which they ask, from cloisterd, and sockets to the world;
 * it touches no workspace. It trusts neither side of a connection, nor DNS, and of cloisterd only
 * which socket belongs to whom: what is allowed it reads in root's configuration itself.
 *
 * cloister-egress user CONFIG ALLOW: started by cloisterd; the channel is FD_EGRESS_CHANNEL.
 * cloister-egress system CONFIG SOCKET: started by the service manager; keeps a child for each
 * generation of cloisterd (egress_parent.h).
 * cloister-egress child CONFIG SOCKET: such a child; it connects to cloisterd.
 */
#include "common/cleanup.h"
#include "common/landlock.h"
#include "common/monotonic.h"
#include "common/wire/fixed_fds.h"
#include "egress/confine.h"
#include "egress/conn.h"
#include "egress/egress_parent.h"
#include "egress/resolver.h"
#include "egress/resolver_check.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "cloister-egress: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/* Tries until cloisterd listens: the two units start in any order. */
static int connect_to_cloisterd(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		die(path, fd < 0 ? errno : ENAMETOOLONG);
	memcpy(address.sun_path, path, strlen(path) + 1);
	while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		if (errno != ENOENT && errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
			die(path, errno);
		sleep(1);
	}
	return fd;
}

/*
 * Every connection takes two descriptors. They leave some for the cells that are opened next: a
 * message whose descriptors do not fit would be the end of the connection to cloisterd.
 */
static void raise_descriptors(struct egress *egress)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("RLIMIT_NOFILE", errno);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		die("RLIMIT_NOFILE", errno);
	if (limit.rlim_cur < LIMIT_DESCRIPTORS_MIN)
		die("RLIMIT_NOFILE is too low", EMFILE);
	egress->max_sockets = limit.rlim_cur - LIMIT_DESCRIPTORS_KEPT;
	egress->max_open = egress->max_sockets / 16 * 7;
}

static void read_policy(struct egress *egress, const char *config, const char *allow)
{
	int r = egress_policy_open(config, allow, &egress->policy);

	if (r == 0)
		r = egress_policy_read(egress->policy, egress->is_system);
	if (r < 0)
		die(config[0] ? config : "rules", r);
}

/* A version of c-ares that does otherwise than the one that was tested serves nobody. */
static void try_libraries(void)
{
	const char *fault = NULL;
	int r = resolver_check(&fault);

	if (r < 0)
		die("c-ares", r);
	if (!fault)
		return;
	fprintf(stderr,
		"cloister-egress: the library c-ares that is installed here %s: install your "
		"distribution's, or build cloister with this one and run its tests; \"ldd "
		"%s/cloister-egress\" says which file it is\n",
		fault, CLOISTER_LIBEXECDIR);
	exit(1);
}

static void make_loop(struct egress *egress)
{
	struct event_config *config = event_config_new();
	int r;

	if (!config || event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) < 0)
		die("event_config_new", ENOMEM);
	egress->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!egress->base || event_base_priority_init(egress->base, EGRESS_PRIORITIES) < 0)
		die("event_base_new_with_config", ENOMEM);
	r = resolver_new(egress->base, egress_policy_resolver(egress->policy), &egress->resolver);
	if (r < 0)
		die("c-ares", r);
}

int main(int argc, char **argv)
{
	struct egress egress = {0};
	const char *step;
	int fd = FD_EGRESS_CHANNEL, r;

	if (argc == 4 && strcmp(argv[1], "system") == 0)
		egress_parent_run(argv[2], argv[3]);
	if (argc != 4 || (strcmp(argv[1], "child") != 0 && strcmp(argv[1], "user") != 0))
		die("arguments", EINVAL);
	egress.is_system = strcmp(argv[1], "child") == 0;
	signal(SIGPIPE, SIG_IGN);
	r = egress.is_system ? egress_parent_begin() : 0;
	if (r < 0)
		die("egress_parent", r);
	raise_descriptors(&egress);
	try_libraries();
	read_policy(&egress, argv[2], egress.is_system ? "" : argv[3]);
	if (egress.is_system)
		fd = connect_to_cloisterd(argv[3]);
	else if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		die("PR_SET_PDEATHSIG", errno);
	make_loop(&egress);
	egress.landlock_abi = (uint32_t)landlock_abi(); /* which the filter refuses later */
	r = egress_confine(argv[2][0] ? argv[2] : NULL, egress.policy, &step);
	if (r < 0)
		die(step, r);
	r = egress_begin(&egress, fd);
	if (r < 0)
		die("channel", r);
	event_base_dispatch(egress.base);
	die("event_base_dispatch", EIO);
}
