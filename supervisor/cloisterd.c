// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterd: the supervisor. Speaks JSON with agents, and frames with the processes it has the
 * spawner start in each workspace; validates, queues, times, kills, answers. An unprivileged user
 * without capabilities; after start-up it can neither exec nor fork, and it never looks up a path
 * inside a workspace.
 */
#include "common/cleanup.h"
#include "supervisor/agent_conn.h"
#include "supervisor/command_policy.h"
#include "supervisor/listener.h"
#include "supervisor/lockdown.h"
#include "supervisor/log.h"
#include "supervisor/options.h"
#include "supervisor/peer_auth.h"
#include "supervisor/service.h"
#include "supervisor/shutdown.h"
#include "supervisor/spawner_link.h"
#include "supervisor/startup.h"
#include "supervisor/workspace.h"

#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Everything that lives as long as the process. */
struct daemon {
	struct options options;
	struct service service; /* first of all that others see */
	struct spawner_link *spawner;
	struct listener *listener;
	struct shutdown *shutdown;
	const char *own_directories[3]; /* of which no workspace may be a parent */
	int managed_fd;
	bool failed; /* the exit status: the service manager starts it again */
};

static _Noreturn void die(const char *what, int error)
{
	log_error("%s: %s", what, strerror(error < 0 ? -error : error));
	exit(1);
}

static _Noreturn void die_with(const char *message)
{
	log_error("%s", message);
	exit(1);
}

static struct event_base *make_loop(void)
{
	struct event_config *config = event_config_new();
	struct event_base *base = NULL;

	if (config && event_config_set_flag(config, EVENT_BASE_FLAG_IGNORE_ENV) == 0)
		base = event_base_new_with_config(config);
	if (!base)
		die_with("cannot make the event loop");
	event_config_free(config);
	return base;
}

static void on_spawner_lost(void *context)
{
	struct daemon *daemon = context;

	log_error("cloister-spawner is gone, and with it every workspace: exiting");
	daemon->failed = true;
	shutdown_begin(daemon->shutdown);
}

/* A private instance ends with its client. */
static void on_idle(struct service *service)
{
	struct daemon *daemon =
		(struct daemon *)((char *)service - offsetof(struct daemon, service));

	if (daemon->options.connection_fd >= 0 && service->connections == 0)
		event_base_loopbreak(service->base);
}

/* Canonical, for comparison with workspaces' roots. */
static char *canonical_path(const char *path)
{
	char *canonical = realpath(path, NULL);

	return canonical ? canonical : strdup(path);
}

static void open_state(struct daemon *daemon)
{
	_cleanup_close_ int state = -1;
	_cleanup_free_ char *managed = NULL;
	int r;

	daemon->managed_fd = -1;
	if (!daemon->options.state_dir)
		return;
	r = startup_make_directory(daemon->options.state_dir, &state);
	if (r < 0)
		die(daemon->options.state_dir, r);
	if (asprintf(&managed, "%s/workspaces", daemon->options.state_dir) < 0)
		die_with("out of memory");
	r = startup_make_directory(managed, &daemon->managed_fd);
	if (r < 0)
		die(managed, r);
	daemon->own_directories[0] = canonical_path(daemon->options.state_dir);
}

static void bind_socket(struct daemon *daemon)
{
	const char *path = daemon->options.agent_socket;
	size_t i = daemon->own_directories[0] ? 1 : 0;
	int r;

	if (!path)
		return;
	r = startup_make_parent(path);
	if (r == 0)
		r = listener_bind(path, &daemon->listener);
	if (r < 0)
		die(path, r);
	daemon->own_directories[i] = canonical_path(path);
}

static void start_spawner(struct daemon *daemon)
{
	_cleanup_free_ char *message = NULL;
	int r = spawner_link_start(&daemon->spawner, &message);

	if (r < 0 && message)
		die_with(message);
	if (r < 0)
		die("cannot start cloister-spawner", r);
}

static void make_policy(struct daemon *daemon)
{
	_cleanup_free_ char *message = NULL;

	if (command_policy_new(command_policy_default_patterns, command_policy_default_count,
		    &daemon->service.policy, &message) < 0)
		die_with(message ? message : "out of memory");
}

/* Everything that needs what lock-down takes away. */
static void start(struct daemon *daemon)
{
	const char *step;
	int r;

	startup_raise_file_limit();
	startup_keep_memory();
	daemon->service.tenant = startup_tenant_name();
	daemon->service.idle = on_idle;
	start_spawner(daemon);
	open_state(daemon);
	bind_socket(daemon);
	make_policy(daemon);
	daemon->service.base = make_loop();
	daemon->service.workspaces = workspaces_new(
		daemon->service.base, daemon->spawner, daemon->own_directories, daemon->managed_fd);
	daemon->shutdown = shutdown_new(&daemon->service);
	if (!daemon->service.tenant || !daemon->service.workspaces || !daemon->shutdown)
		die_with("out of memory");
	r = spawner_link_watch(daemon->spawner, daemon->service.base, on_spawner_lost, daemon);
	if (r < 0)
		die("cannot watch cloister-spawner", r);
	r = lockdown(&step);
	if (r < 0)
		die(step, r);
}

static void serve(struct daemon *daemon)
{
	int fd = daemon->options.connection_fd, r;

	if (fd >= 0) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		if (!peer_auth_allows(fd))
			die_with("the connection's other end belongs to another user");
		r = agent_conn_new(&daemon->service, fd);
	} else {
		r = listener_start(daemon->listener, &daemon->service);
		log_info("listening on %s", daemon->options.agent_socket);
	}
	if (r < 0)
		die("cannot serve", r);
	event_base_dispatch(daemon->service.base);
}

/* In the order that leaves nobody behind: clients, workspaces, then the spawner with whatever it
 * has. */
static void stop(struct daemon *daemon)
{
	listener_free(daemon->listener);
	agent_conns_close();
	workspaces_free(daemon->service.workspaces);
	spawner_link_free(daemon->spawner);
	shutdown_free(daemon->shutdown);
	command_policy_free(daemon->service.policy);
	event_base_free(daemon->service.base);
	close_fd(&daemon->managed_fd);
	free((void *)daemon->own_directories[0]);
	free((void *)daemon->own_directories[1]);
	free((void *)daemon->service.tenant);
	options_done(&daemon->options);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;
	const char *message = NULL;

	startup_reset_signals();
	signal(SIGPIPE, SIG_IGN);
	log_init(false);
	if (options_read(argc, argv, &daemon.options, &message) < 0)
		die_with(message);
	startup_close_inherited(daemon.options.connection_fd);
	log_init(daemon.options.connection_fd >= 0);
	if (startup_leave_root(daemon.options.user, &message) < 0)
		die_with(message);
	start(&daemon);
	serve(&daemon);
	stop(&daemon);
	return daemon.failed ? 1 : 0;
}
