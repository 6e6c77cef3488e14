// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloisterd, before lock-down. It looks names up in the user database and in /etc/subuid
 * and /etc/subgid, and trusts those as the host's. Both programs read the configuration themselves,
 * and the spawner checks against it what cloisterd asks for.
 */
#include "supervisor/daemon/helpers.h"

#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/limits.h"
#include "supervisor/base/log.h"
#include "supervisor/cell/spawner_begin.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/config.h"
#include "supervisor/connection/listener.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/new_daemon.h"
#include "supervisor/daemon/own_sockets.h"
#include "supervisor/host/features.h"
#include "supervisor/host/id_range.h"
#include "supervisor/host/startup.h"
#include "supervisor/workspace/network/egress_link.h"

#include <stdlib.h>
#include <sys/stat.h>

void helpers_start_spawner(struct daemon *daemon)
{
	_cleanup_free_ char *message = NULL;
	struct id_range range = {0};
	char readonly[LIMIT_READONLY_BYTES];
	bool system = daemon_is_system(daemon);
	const struct spawner_start start = {.cgroup_fd = daemon->cgroup.root,
		.managed_fd = daemon->managed_fd,
		.config = daemon->config_source ? daemon->options.config : NULL,
		.readonly = readonly,
		.network = daemon->options.allow_net[0] != NULL,
		.beside = daemon->new_daemon != NULL,
		.range = system ? &range : NULL};
	int r = system ? id_range_find("/etc", &range) : 0;
	struct disk_classes classes;
	mode_t inherited;

	config_disk_classes(&daemon->service.config->host, &classes);
	options_join_readonly_paths(&daemon->options, readonly);
	if (r < 0)
		die_with("system mode needs a range in /etc/subuid and one in /etc/subgid for the "
			 "user that cloisterd runs as, without root and that user in them: usermod "
			 "--add-subuids 200000-265535 --add-subgids 200000-265535 USER");
	if (system && disk_classes_ids(&classes) > disk_classes_managed(range.count).count)
		die_with("disk_classes has more ids than there are for managed workspaces, half of "
			 "the range in /etc/subuid: make the classes smaller, or the range larger");
	/*
	 * Commands and files processes inherit the umask. Without a configuration it is the user's.
	 */
	inherited = umask(077);
	umask(daemon->service.config->from_file ? (mode_t)daemon->service.config->host.umask
						: inherited & 077);
	r = spawner_link_start(&start, &daemon->spawner, &message);
	umask(inherited);

	if (r < 0 && !feature_is_present("system_calls"))
		log_error("%s", feature_remedy("system_calls"));
	if (r < 0 && message)
		die_with(message);
	if (r < 0)
		die("cannot start cloister-spawner", r);
}

static uid_t egress_user(const struct config_host *host)
{
	const char *name = host->egress_user ? host->egress_user : DEFAULT_EGRESS_USER;
	uid_t uid;

	if (startup_find_user(name, &uid) == 0)
		return uid;
	log_error("there is no user %s, as whom cloister-egress would connect: make it, or set "
		  "egress_user",
		name);
	exit(1);
}

void helpers_start_egress(struct daemon *daemon)
{
	const struct config *config = daemon->service.config;
	_cleanup_free_ char *allow = options_join_allow_net(&daemon->options);
	struct egress_start start = {
		.config = daemon->config_source ? daemon->options.config : NULL,
		.allow = allow,
		.listener = -1};
	int r;

	own_sockets_bind_egress(daemon);
	if (!daemon->egress && !config_has_network(config))
		return;
	if (daemon->egress) {
		start.listener = listener_fd(daemon->egress);
		start.uid = egress_user(&config->host);
	}
	/* The unit of a service has no network, and what cloisterd starts would have none either.
	 */
	if (!daemon->egress && daemon_is_system(daemon) && daemon->options.agent_fd >= 0 &&
		!(daemon->new_daemon && new_daemon_owns_sockets(daemon->new_daemon)))
		die_with("network = egress: a service manager that passes the agent socket must "
			 "start "
			 "cloister-egress too, in a unit of its own: pass its socket with "
			 "FileDescriptorName=egress, or name one with egress_socket");
	r = egress_link_start(&start, &daemon->service.egress);
	if (r < 0)
		die("cannot start cloister-egress", r);
}
