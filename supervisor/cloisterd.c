// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterd: the supervisor. It speaks JSON with agents and frames with the processes that the
 * spawner starts for each workspace. It validates, queues, times, ends, answers and records calls.
 * It runs as an unprivileged user without capabilities; after its start it can neither exec nor
 * fork, and it never looks up a path inside a workspace.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/short_timeslice.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/agent/lease_end.h"
#include "supervisor/agent/mcp/mcp_ext_task.h"
#include "supervisor/audit/audit.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/log_writer.h"
#include "supervisor/base/loop.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/keys/key_journal.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/call/service.h"
#include "supervisor/cell/spawner_link.h"
#include "supervisor/config/config_load.h"
#include "supervisor/config/known_sets.h"
#include "supervisor/config/options.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/connection/agent_conn.h"
#include "supervisor/connection/listener.h"
#include "supervisor/connection/unauthorized_client.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/control/control_events.h"
#include "supervisor/control/control_network.h"
#include "supervisor/control/control_selftest.h"
#include "supervisor/daemon/config_check.h"
#include "supervisor/daemon/config_reload.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/detach.h"
#include "supervisor/daemon/helpers.h"
#include "supervisor/daemon/new_daemon.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/daemon/old_daemon.h"
#include "supervisor/daemon/own_files.h"
#include "supervisor/daemon/own_sockets.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/disk_probe.h"
#include "supervisor/host/features.h"
#include "supervisor/host/headroom.h"
#include "supervisor/host/id_range.h"
#include "supervisor/host/libraries.h"
#include "supervisor/host/listen_fds.h"
#include "supervisor/host/overlay_probe.h"
#include "supervisor/host/shared_budgets.h"
#include "supervisor/host/startup.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/selftest/selftest.h"
#include "supervisor/session/session.h"
#include "supervisor/workspace/managed/leases.h"
#include "supervisor/workspace/managed/removal.h"
#include "supervisor/workspace/managed/workspace_root.h"
#include "supervisor/workspace/network/egress_link.h"
#include "supervisor/workspace/workspaces.h"

#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Makes the loop, with the timer and the signals that it has from start to end. */
static bool start_loop(struct daemon *daemon, bool epoll)
{
	struct service *service = &daemon->service;

	service->base = loop_new(epoll);
	if (!service->base)
		die_with("cannot make the event loop");
	if (timers_start(service->base) == 0)
		daemon->shutdown = shutdown_new(service);
	if (daemon->shutdown)
		return true;
	timers_stop();
	event_base_free(service->base);
	return false;
}

/*
 * watch.h needs no place in epoll(7), but it needs a timer, and signals need a pipe. In user mode
 * the commands of another instance may have used up fs.epoll.max_user_watches. This cloisterd then
 * waits by poll(2), for which the kernel has no such limit.
 */
static void start_some_loop(struct daemon *daemon)
{
	if (start_loop(daemon, true))
		return;
	log_warning("the limit fs.epoll.max_user_watches is used up for this user: waiting by "
		    "poll(2) instead of epoll(7), which takes longer the more workspaces are open");
	if (!start_loop(daemon, false))
		die_with("cannot start the event loop");
}

static void on_spawner_lost(void *context)
{
	struct daemon *daemon = context;

	log_error("cloister-spawner died, and every workspace with it: exiting");
	daemon->failed = true;
	shutdown_begin(daemon->shutdown);
}

/* A private instance ends with its client. */
static void on_service_idle(struct service *service)
{
	struct daemon *daemon =
		(struct daemon *)((char *)service - offsetof(struct daemon, service));

	if (daemon->options.connection_fd >= 0 && service->connections == 0)
		event_base_loopbreak(service->base);
}

/* Runs while NSS can be used, and as the user that started cloisterd. */
static void read_config(struct daemon *daemon)
{
	const char *path = daemon->options.config;
	int r;

	known_sets_read();
	if (!path)
		return;
	r = config_source_open(path, &daemon->config_source);
	if (r < 0)
		die(path, r);
	daemon->service.config = config_reload_first(daemon->config_source);
	if (!daemon->service.config)
		exit(1);
	config_source_lock(daemon->config_source);
	if (!daemon->options.user && daemon->service.config->host.user)
		daemon->options.user = strdup(daemon->service.config->host.user);
}

static void log_start_mistake(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	(void)file;
	(void)line;
	log_error("%s", message);
}

/* Our own user, with the read-only paths of the command line. */
static struct config *own_user(const struct daemon *daemon)
{
	static const struct config_complaints complaints = {log_start_mistake, NULL, NULL};
	_cleanup_free_ char *name = startup_tenant_name();
	struct config *config = name ? config_user_mode(name, geteuid()) : NULL;

	for (const char *const *path = daemon->options.readonly_paths; config && *path; path++)
		if (config_show_path(config, *path, &complaints) < 0)
			exit(1);
	for (const char *const *net = daemon->options.allow_private_net; config && *net; net++)
		if (config_allow_private(config, *net, &complaints) < 0)
			exit(1);
	for (const char *const *rule = daemon->options.allow_net; config && *rule; rule++)
		if (config_allow_host(config, *rule, &complaints) < 0)
			exit(1);
	for (const char *const *variable = daemon->options.env; config && *variable; variable++)
		if (config_set_variable(config, *variable, &complaints) < 0)
			exit(1);
	if (config && daemon->options.has_tools)
		config->tenants[0]->tools = daemon->options.tools;
	if (config && daemon->options.spare_cells >= 0)
		config->host.spare_cells = (uint64_t)daemon->options.spare_cells;
	return config;
}

/* Decides who is served: the tenants of the file, or our own user. */
static void choose_tenants(struct daemon *daemon)
{
	if (!daemon->service.config)
		daemon->service.config = own_user(daemon);
	if (!daemon->service.config)
		die_with("out of memory");
}

static void settle_config(struct daemon *daemon)
{
	const char *sentence = NULL;

	choose_tenants(daemon);
	if (usage_begin_all(daemon->service.config, NULL) < 0)
		die_with("out of memory");
	if (options_complete(&daemon->options, &daemon->service.config->host, &sentence) < 0)
		die_with(sentence);
	if (daemon->options.take_over)
		new_daemon_ask(daemon);
}

/* Looks at what no setting replaces, and raises limits. */
static void check_host(void)
{
	const char *message = NULL;

	startup_raise_limits();
	if (startup_check_file_limit(&message) < 0)
		die_with(message);
	loop_log_errors();
	if (libraries_check(&message) < 0)
		die_with(message);
}

/* doctor looks at a host before there is a state directory. */
static void probe_disk(const struct daemon *daemon)
{
	const struct config_host *host = &daemon->service.config->host;
	const char *state = daemon->options.state_dir ? daemon->options.state_dir : host->state_dir;
	const bool system = daemon_is_system(daemon);
	struct disk_classes classes;
	struct id_range range = {0};

	config_disk_classes(host, &classes);
	if (!system || id_range_find("/etc", &range) == 0)
		disk_probe(state ? state : "/", &classes, system ? &range : NULL);
	if (state)
		overlay_probe(state);
}

static void probe_features(struct daemon *daemon)
{
	/* first, so that the spawner is in the same group */
	if (daemon->new_daemon)
		cgroup_take_beside(new_daemon_take_cgroup(daemon->new_daemon), &daemon->cgroup);
	else
		cgroup_take(&daemon->cgroup);
	daemon->service.cgroup = &daemon->cgroup;
	shared_budgets_read(config_workspaces(daemon->service.config),
		config_most_watches(daemon->service.config), !daemon_is_system(daemon),
		cgroup_memory_numbers(&daemon->cgroup));
	probe_disk(daemon);
	features_probe(&daemon->cgroup);
}

/* --doctor: prints what the host lacks. Returns the exit status. */
static int examine_host(struct daemon *daemon)
{
	check_host();
	choose_tenants(daemon);
	options_find_state(&daemon->options, &daemon->service.config->host);
	probe_features(daemon);
	return features_print(stdout) ? 0 : 1;
}

static void check_features(struct daemon *daemon)
{
	_cleanup_free_ char *message = NULL;

	if (features_check(&daemon->service.config->host.require, &message) < 0)
		die_with(message ? message : "out of memory");
}

static void observe_calls(struct daemon *daemon)
{
	size_t n = 0;

	if (daemon->service.audit)
		daemon->observers[n++] = (struct call_observer){
			audit_call_admitted, audit_call_ended, NULL, daemon->service.audit, NULL};
	daemon->observers[n++] = (struct call_observer){control_events_begun, control_events_ended,
		control_events_refused, NULL, &control_watchers};
	daemon->network = (struct egress_observer){
		control_network_denied, control_network_closed, &daemon->service};
	daemon->service.observers = daemon->observers;
	daemon->service.n_observers = n;
}

/* Where open files are few, says what that allows. */
static void say_room(const struct daemon *daemon)
{
	const uint64_t most = workspaces_room(daemon->service.workspaces).limit;

	if (most == 0 || daemon->options.connection_fd >= 0)
		return;
	log_info("of %llu open files, which is the limit, workspaces may hold %llu: %llu of them "
		 "can have processes at once, or %llu with network = egress; raise it with "
		 "LimitNOFILE= in the unit, or ulimit -n",
		(unsigned long long)startup_file_limit(), (unsigned long long)most,
		(unsigned long long)most / LIMIT_DESCRIPTORS_WORKSPACE,
		(unsigned long long)most / LIMIT_DESCRIPTORS_NETWORK);
}

/* Does everything that lock-down would prevent. */
static void start_daemon(struct daemon *daemon)
{
	int r;

	tzset(); /* reads a file, which logging would do later */
	check_host();
	startup_keep_memory();
	peer_auth_init();
	settle_config(daemon);
	daemon->service.idle = on_service_idle;
	unread_init(&daemon->service.unread);
	daemon->service.started = clock_now();
	daemon->service.started_unix_ms = clock_unix_ms();
	probe_features(daemon);
	check_features(daemon);
	own_files_config(daemon);
	own_files_state(daemon);
	if (!daemon->new_daemon)
		cgroup_clear_generations(&daemon->cgroup);
	own_files_journal(daemon);
	own_files_audit(daemon);
	audit_share(daemon->service.audit, daemon->service.config->n_tenants);
	helpers_start_spawner(daemon);
	helpers_start_egress(daemon);
	own_sockets_bind(daemon);
	start_some_loop(daemon);
	if (loop_turn_start(daemon->service.base) < 0 ||
		loop_share_start(daemon->service.base) < 0 ||
		shared_fds_start(daemon->service.base) < 0)
		die_with("out of memory");
	daemon->service.admission.scheduler =
		scheduler_new(daemon->service.base, daemon->service.config);
	daemon->service.workspaces = workspaces_new(daemon->service.base, daemon->spawner,
		daemon->service.admission.scheduler, daemon->own_paths, daemon->managed_fd);
	if (daemon->service.workspaces) {
		workspaces_set_cgroups(daemon->service.workspaces, daemon->cgroup.root);
		workspaces_use_egress(daemon->service.workspaces, daemon->service.egress);
		workspaces_limit_descriptors(daemon->service.workspaces, startup_file_limit());
		if (daemon->new_daemon)
			new_daemon_begin(daemon->new_daemon);
	}
	daemon->service.pipes = pipe_stock_new(daemon->service.base);
	observe_calls(daemon);
	if (daemon->config_source)
		daemon->config_reload = daemon->service.config_reload =
			config_reload_new(&daemon->service, daemon->config_source, daemon->spawner);
	if (daemon->options.connection_fd < 0)
		daemon->service.selftest = selftest_new(&daemon->service, control_selftest_ended);
	if (daemon->options.connection_fd < 0 &&
		headroom_new(daemon->managed_fd, &daemon->cgroup, &daemon->service.headroom) < 0)
		die_with("out of memory");
	daemon->service.selftest_refuses = daemon->service.selftest ? selftest_refuses : NULL;
	if (!daemon->service.pipes || !daemon->service.admission.scheduler ||
		!daemon->service.workspaces || (daemon->config_source && !daemon->config_reload) ||
		(daemon->options.connection_fd < 0 && !daemon->service.selftest))
		die_with("out of memory");
	if (workspaces_own_shown(daemon->service.workspaces, daemon->service.config))
		die_with("readonly_paths would show cloister's own files");
	workspaces_reload(daemon->service.workspaces, daemon->service.config);
	say_room(daemon);
	r = spawner_link_watch(daemon->spawner, daemon->service.base, on_spawner_lost, daemon);
	if (r < 0)
		die("cannot watch cloister-spawner", r);
	if (daemon->service.egress)
		r = egress_link_watch(
			daemon->service.egress, daemon->service.base, &daemon->network);
	if (r < 0)
		die("cannot watch cloister-egress", r);
	/* A former generation has yet to say which workspaces it still uses: new_daemon_serve(). */
	daemon->removal = removal_new(
		daemon->service.workspaces, daemon->new_daemon ? NULL : daemon->service.config);
	if (!daemon->removal)
		die_with("out of memory");
	if (!daemon->new_daemon)
		leases_look(workspaces_leases(daemon->service.workspaces), daemon->service.config,
			true);
	(void)short_timeslice(true);
	own_files_lock_down(daemon);
	r = audit_start(daemon->service.audit);
	if (r < 0)
		die("cannot start the audit log's thread", r);
	r = keys_start(daemon->service.keys, daemon->service.base);
	if (r < 0)
		die("cannot start the journal's thread", r);
	r = daemon->service.headroom ? headroom_start(daemon->service.headroom) : 0;
	if (r < 0)
		die("cannot start the thread that looks at disk and memory", r);
	r = log_writer_start();
	if (r < 0)
		die("cannot start the log's thread", r);
	(void)atexit(log_writer_flush);
}

static void serve_cloisterd(struct daemon *daemon)
{
	struct peer_credentials peer = {0};
	int fd = daemon->options.connection_fd, r;

	clock_begin_turn();
	if (fd >= 0) {
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		r = peer_auth_read(fd, &peer);
		if (r < 0 || !peer_auth_first(daemon->service.config, &peer))
			die_with("the client of this connection runs as another user, or as one "
				 "that this user namespace does not map");
		r = agent_conn_new(&daemon->service, &agent_endpoint, fd, &peer);
	} else {
		new_daemon_prepare(daemon->new_daemon);
		r = listener_start(daemon->listener, &daemon->service, &agent_endpoint);
		if (r == 0 && daemon->control)
			r = listener_start(daemon->control, &daemon->service, &control_endpoint);
		if (r == 0)
			r = old_daemon_start(daemon->old_daemon);
		if (r < 0)
			die("cannot serve", r);
		/* Nothing that follows can fail, so that the old daemon ends for one that serves.
		 */
		detach_stay();
		new_daemon_serve(daemon->new_daemon);
		log_info("listening on %s", daemon->options.agent_fd >= 0
						    ? "the socket that was passed"
						    : daemon->options.agent_socket);
		selftest_start(daemon->service.selftest);
	}
	lease_end_begin(&daemon->service);
	/* the reader of stderr gets these lines before it hears that the service is ready */
	log_writer_flush();
	if (r < 0)
		die("cannot serve", r);
	notify_start(&daemon->service);
	detach_tell();
	loop_run(daemon->service.base);
}

/*
 * Ends everything in the order of dependence: clients, workspaces, then the spawner with the rest.
 */
static void stop_cloisterd(struct daemon *daemon)
{
	new_daemon_await_former(daemon->new_daemon);
	listener_free(daemon->listener);
	listener_free(daemon->control);
	agent_conns_close();
	unauthorized_clients_close();
	selftest_free(daemon->service.selftest);
	lease_end_free_all();
	workspaces_free(daemon->service.workspaces);
	session_free_all();
	mcp_ext_tasks_free_all();
	removal_free(daemon->removal);
	scheduler_free(daemon->service.admission.scheduler);
	spawner_link_free(daemon->spawner);
	egress_link_free(daemon->service.egress);
	listener_free(daemon->egress);
	shutdown_free(daemon->shutdown);
	pipe_stock_free(daemon->service.pipes);
	config_reload_free(daemon->config_reload);
	keys_free(daemon->service.keys);
	free(daemon->service.moved_to);
	audit_free(daemon->service.audit);
	old_daemon_free(daemon->old_daemon);
	new_daemon_free(daemon->new_daemon);
	headroom_free(daemon->service.headroom);
	notify_close();
	config_release(daemon->service.config);
	config_source_free(daemon->config_source);
	shared_fds_stop();
	loop_share_stop();
	loop_turn_stop();
	timers_stop();
	event_base_free(daemon->service.base);
	cgroup_done(&daemon->cgroup);
	close_fd(&daemon->managed_fd);
	for (size_t i = 0; daemon->own_paths[i]; i++)
		free((void *)daemon->own_paths[i]);
	options_done(&daemon->options);
}

int main(int argc, char **argv)
{
	static struct daemon daemon;
	struct listen_fds passed;
	const char *message = NULL;
	int r;

	startup_reset_signals();
	signal(SIGPIPE, SIG_IGN);
	log_init(false);
	options_read(argc, argv, &daemon.options);
	if (listen_fds_take(&passed, &message) < 0)
		die_with(message);
	if (daemon.options.only_root.set)
		workspace_root_only(daemon.options.only_root.dev, daemon.options.only_root.ino,
			daemon.options.only_root.uid);
	daemon.options.agent_fd = passed.agent;
	daemon.options.control_fd = passed.control;
	daemon.options.egress_fd = passed.egress;
	startup_close_inherited(daemon.options.connection_fd >= 0 ? 1 : passed.count);
	if (daemon.options.detach)
		detach_begin();
	log_init(daemon.options.connection_fd >= 0);
	log_connect();
	r = notify_open();
	if (r < 0)
		log_warning("cannot notify the service manager: $NOTIFY_SOCKET: %s", strerror(-r));
	if (daemon.options.check)
		return config_check(daemon.options.config);
	read_config(&daemon);
	startup_come_first();
	/* --doctor tells root, too, what there is. */
	if ((!daemon.options.doctor || daemon.options.user) &&
		startup_leave_root(daemon.options.user,
			daemon.service.config && daemon_is_system(&daemon), &message) < 0)
		die_with(message);
	if (daemon.options.doctor)
		return examine_host(&daemon);
	start_daemon(&daemon);
	serve_cloisterd(&daemon);
	stop_cloisterd(&daemon);
	return daemon.failed ? 1 : 0;
}
