// SPDX-License-Identifier: Apache-2.0
/*
 * cloisterd: the supervisor. It speaks JSON with agents and frames with the processes that the
 * spawner starts for each workspace. It validates, queues, times, ends, answers and records calls.
 * It runs as an unprivileged user without capabilities; after its start it can neither exec nor
 * fork, and it never looks up a path inside a workspace.
 */
#include "common/cleanup.h"
#include "common/config_defaults.h"
#include "common/landlock.h"
#include "common/short_timeslice.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/audit/audit_writer.h"
#include "supervisor/base/clock.h"
#include "supervisor/base/log.h"
#include "supervisor/base/log_writer.h"
#include "supervisor/base/loop.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/base/timer.h"
#include "supervisor/call/call.h"
#include "supervisor/call/key_journal.h"
#include "supervisor/call/keys.h"
#include "supervisor/call/pipe_stock.h"
#include "supervisor/call/service.h"
#include "supervisor/config/config_load.h"
#include "supervisor/config/options.h"
#include "supervisor/config/peer_auth.h"
#include "supervisor/control/control_endpoint.h"
#include "supervisor/control/control_events.h"
#include "supervisor/control/control_network.h"
#include "supervisor/control/control_selftest.h"
#include "supervisor/daemon/config_check.h"
#include "supervisor/daemon/config_reload.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/host/cgroup.h"
#include "supervisor/host/features.h"
#include "supervisor/host/id_range.h"
#include "supervisor/host/libraries.h"
#include "supervisor/host/listen_fds.h"
#include "supervisor/host/lockdown.h"
#include "supervisor/host/shared_budgets.h"
#include "supervisor/host/startup.h"
#include "supervisor/journal/journal.h"
#include "supervisor/rpc/agent_conn.h"
#include "supervisor/rpc/listener.h"
#include "supervisor/rpc/unauthorized_client.h"
#include "supervisor/schedule/loop_share.h"
#include "supervisor/schedule/scheduler.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/selftest/selftest.h"
#include "supervisor/workspace/egress_link.h"
#include "supervisor/workspace/removal.h"
#include "supervisor/workspace/spawner_link.h"
#include "supervisor/workspace/workspace_root.h"
#include "supervisor/workspace/workspaces.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* State that lives as long as the process. */
struct daemon {
	struct options options;
	struct config_source *config_source; /* NULL: user mode without a file */
	struct config_reload *config_reload;
	struct service service; /* the part of the state that other files see */
	struct call_observer observers[2];
	struct egress_observer network;
	struct cgroup cgroup;
	struct spawner_link *spawner;
	struct listener *listener, *control;
	struct listener *egress; /* where cloister-egress connects; NULL: it does not */
	struct shutdown *shutdown;
	struct removal *removal;
	const char *own_paths[8]; /* paths that no workspace may contain, ended by NULL */
	int managed_fd;
	bool failed; /* exit with a failure, so that the service manager starts cloisterd again */
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
static void on_idle(struct service *service)
{
	struct daemon *daemon =
		(struct daemon *)((char *)service - offsetof(struct daemon, service));

	if (daemon->options.connection_fd >= 0 && service->connections == 0)
		event_base_loopbreak(service->base);
}

/* Returns the canonical path, for comparison with workspaces' roots. */
static char *canonical_path(const char *path)
{
	char *canonical = realpath(path, NULL);

	return canonical ? canonical : strdup(path);
}

static void add_own_path(struct daemon *daemon, char *path)
{
	size_t i = 0;

	if (!path)
		die_with("out of memory");
	while (daemon->own_paths[i])
		i++;
	daemon->own_paths[i] = path;
}

static void own_config(struct daemon *daemon)
{
	_cleanup_free_ char *drop_ins = NULL;

	if (!daemon->config_source)
		return;
	drop_ins = config_source_drop_ins(daemon->config_source);
	if (!drop_ins)
		die_with("out of memory");
	add_own_path(daemon, canonical_path(daemon->options.config));
	add_own_path(daemon, canonical_path(drop_ins));
}

/*
 * Locks the state for as long as cloisterd lives. Two instances would remove each other's
 * workspaces and, in system mode, give one id to two workspaces.
 */
static void lock_state(const char *directory)
{
	static int lock;
	long holder = 0;
	int r = startup_lock_state(directory, &lock, &holder);

	if (r == -EBUSY) {
		log_error("another cloisterd, process %ld, uses the state directory %s: stop it, "
			  "or choose another directory with --state-dir (state_dir in the "
			  "configuration)",
			holder, directory);
		exit(1);
	}
	if (r < 0) {
		log_error("%s/lock: %s", directory, strerror(-r));
		exit(1);
	}
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
	lock_state(daemon->options.state_dir);
	if (asprintf(&managed, "%s/workspaces", daemon->options.state_dir) < 0)
		die_with("out of memory");
	r = startup_make_directory(managed, &daemon->managed_fd);
	if (r < 0)
		die(managed, r);
	add_own_path(daemon, canonical_path(daemon->options.state_dir));
}

/*
 * Returns the path of the audit log, malloc'ed, or NULL if there is none. The default is a
 * directory of its own, because Landlock gives write access to whole directories and cloisterd must
 * not write in the workspaces beside it.
 */
static char *audit_path(const struct daemon *daemon)
{
	const struct config_host *host = &daemon->service.config->host;
	char *path;

	if (host->audit == AUDIT_OFF)
		return NULL;
	if (host->audit_file)
		path = strdup(host->audit_file);
	else if (asprintf(&path, "%s/audit/audit.log", daemon->options.state_dir) < 0)
		path = NULL;
	if (!path)
		die_with("out of memory");
	return path;
}

/* The journal of keys, in a directory of its own. It is opened here and never again. */
static void open_journal(struct daemon *daemon)
{
	const struct config *config = daemon->service.config;
	_cleanup_close_ int directory = -1;
	_cleanup_free_ char *path = NULL;
	int r;

	if (config->host.journal == JOURNAL_OFF || !daemon->options.state_dir)
		return;
	if (asprintf(&path, "%s/journal", daemon->options.state_dir) < 0)
		die_with("out of memory");
	r = startup_make_directory(path, &directory);
	if (r == 0)
		r = keys_open(
			directory, config->host.journal == JOURNAL_DURABLE, &daemon->service.keys);
	if (r < 0)
		die(path, r);
	keys_configure(daemon->service.keys, config);
}

static void open_audit(struct daemon *daemon)
{
	const struct config_host *host = &daemon->service.config->host;
	const struct audit_rotation rotation = {host->audit_size_bytes, host->audit_files};
	_cleanup_free_ char *path = audit_path(daemon);
	int r;

	if (!path)
		return;
	r = host->audit_file ? 0 : startup_make_parent(path);
	if (r < 0)
		die(path, r);
	r = audit_new(path, host->audit == AUDIT_REQUIRED, &rotation, &daemon->service.audit);
	if (r == -EAGAIN)
		die_with("another cloisterd writes the audit log");
	if (r < 0)
		die(path, r);
	add_own_path(daemon, canonical_path(path));
}

/* A socket from the service manager replaces one of our own. */
static void adopt_socket(struct daemon *daemon, int fd, struct listener **ret)
{
	char *path;
	int r = listener_adopt(fd, ret, &path);

	if (r < 0)
		die("cannot use the socket that was passed", r);
	if (path)
		add_own_path(daemon, canonical_path(path));
	free(path);
}

static void bind_socket(
	struct daemon *daemon, int fd, const char *path, mode_t mode, struct listener **ret)
{
	int r;

	if (fd >= 0)
		adopt_socket(daemon, fd, ret);
	if (fd >= 0 || !path)
		return;
	r = startup_make_parent(path);
	if (r == 0)
		r = listener_bind(path, mode, ret);
	if (r < 0)
		die(path, r);
	add_own_path(daemon, canonical_path(path));
}

static void bind_sockets(struct daemon *daemon)
{
	const struct config *config = daemon->service.config;

	bind_socket(daemon, daemon->options.agent_fd, daemon->options.agent_socket,
		(mode_t)config->host.agent_socket_mode, &daemon->listener);
	/*
	 * The peer's credentials decide; in user mode the socket's mode keeps other users out as
	 * well.
	 */
	bind_socket(daemon, daemon->options.control_fd, daemon->options.control_socket,
		config->from_file ? 0666 : 0600, &daemon->control);
}

static bool is_system_mode(const struct daemon *daemon)
{
	return daemon->service.config->host.mode == CONFIG_MODE_SYSTEM;
}

static void start_spawner(struct daemon *daemon)
{
	_cleanup_free_ char *message = NULL;
	struct id_range range = {0};
	char readonly[LIMIT_READONLY_BYTES];
	bool system = is_system_mode(daemon);
	const struct spawner_start start = {.cgroup_fd = daemon->cgroup.root,
		.managed_fd = daemon->managed_fd,
		.config = daemon->config_source ? daemon->options.config : NULL,
		.readonly = readonly,
		.network = daemon->options.allow_net[0] != NULL,
		.range = system ? &range : NULL};
	int r = system ? id_range_find("/etc", &range) : 0;
	mode_t inherited;

	options_join_readonly_paths(&daemon->options, readonly);
	if (r < 0)
		die_with("system mode needs a range in /etc/subuid and one in /etc/subgid for the "
			 "user that cloisterd runs as, without root and that user in them: usermod "
			 "--add-subuids 200000-265535 --add-subgids 200000-265535 USER");
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

/*
 * cloister-egress is there where a tenant needs it, or where it has a socket: then a tenant may
 * come to need it at a reload.
 */
static void start_egress(struct daemon *daemon)
{
	const struct config *config = daemon->service.config;
	_cleanup_free_ char *allow = options_join_allow_net(&daemon->options);
	struct egress_start start = {
		.config = daemon->config_source ? daemon->options.config : NULL,
		.allow = allow,
		.listener = -1};
	int r;

	bind_socket(daemon, daemon->options.egress_fd, config->host.egress_socket, 0666,
		&daemon->egress);
	if (!daemon->egress && !config_has_network(config))
		return;
	if (daemon->egress) {
		start.listener = listener_fd(daemon->egress);
		start.uid = egress_user(&config->host);
	}
	/* The unit of a service has no network, and what cloisterd starts would have none either.
	 */
	if (!daemon->egress && is_system_mode(daemon) && daemon->options.agent_fd >= 0)
		die_with("network = egress: a service manager that passes the agent socket must "
			 "start "
			 "cloister-egress too, in a unit of its own: pass its socket with "
			 "FileDescriptorName=egress, or name one with egress_socket");
	r = egress_link_start(&start, &daemon->service.egress);
	if (r < 0)
		die("cannot start cloister-egress", r);
}

/* Runs while NSS can be used, and as the user that started cloisterd. */
static void read_config(struct daemon *daemon)
{
	const char *path = daemon->options.config;
	int r;

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

static void log_mistake(void *context, const char *file, unsigned line, const char *message)
{
	(void)context;
	(void)file;
	(void)line;
	log_error("%s", message);
}

/* Our own user, with the read-only paths of the command line. */
static struct config *own_user(const struct daemon *daemon)
{
	static const struct config_complaints complaints = {log_mistake, NULL};
	_cleanup_free_ char *name = startup_tenant_name();
	struct config *config = name ? config_user_mode(name, geteuid()) : NULL;

	for (const char *const *path = daemon->options.readonly_paths; config && *path; path++)
		if (config_show_path(config, *path, &complaints) < 0)
			exit(1);
	for (const char *const *rule = daemon->options.allow_net; config && *rule; rule++)
		if (config_allow_host(config, *rule, &complaints) < 0)
			exit(1);
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

static void probe_features(struct daemon *daemon)
{
	cgroup_take(&daemon->cgroup); /* first, so that the spawner is in the same group */
	daemon->service.cgroup = &daemon->cgroup;
	shared_budgets_read(config_workspaces(daemon->service.config), !is_system_mode(daemon));
	features_probe(&daemon->cgroup);
}

/* --doctor: prints what the host lacks. Returns the exit status. */
static int examine_host(struct daemon *daemon)
{
	check_host();
	choose_tenants(daemon);
	probe_features(daemon);
	return features_print(stdout) ? 0 : 1;
}

static void check_features(struct daemon *daemon)
{
	_cleanup_free_ char *message = NULL;

	if (features_check(&daemon->service.config->host.require, &message) < 0)
		die_with(message ? message : "out of memory");
}

/* Returns the directory of the file or socket at @path; NULL for none. */
static char *directory_of(const char *path)
{
	char *directory = path ? strdup(path) : NULL, *slash;

	if (path && (path[0] == '\0' || !directory))
		die_with("out of memory");
	slash = directory ? strrchr(directory, '/') : NULL;
	if (slash)
		slash[slash == directory] = '\0';
	else if (directory)
		memcpy(directory, ".", sizeof("."));
	return directory;
}

/*
 * Lists the directories that cloisterd uses by name from here on: those of the configuration and of
 * the user database, for a reload (perhaps through links), of its own workspaces, of the sockets,
 * to remove them, and of the audit log, to rename it, open it again and remove the oldest file.
 */
static void lock_down(struct daemon *daemon)
{
	const struct options *options = &daemon->options;
	_cleanup_free_ char *real = options->config ? canonical_path(options->config) : NULL;
	_cleanup_free_ char *config = directory_of(options->config);
	_cleanup_free_ char *real_config = directory_of(real);
	_cleanup_free_ char *agent = directory_of(options->agent_socket);
	_cleanup_free_ char *control = directory_of(options->control_socket);
	_cleanup_free_ char *log = audit_path(daemon), *audit = directory_of(log);
	char cgroups[32] = "";
	const struct lockdown_place places[] = {
		{config, RULESET_READ},
		{real_config, RULESET_READ},
		{config ? "/etc" : NULL, LANDLOCK_ACCESS_FS_READ_FILE},
		{options->state_dir, LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_DIR |
					     LANDLOCK_ACCESS_FS_REMOVE_DIR},
		{agent, LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{control, LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{audit, LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_READ_DIR |
				LANDLOCK_ACCESS_FS_REMOVE_FILE},
		{daemon->cgroup.root < 0 ? NULL : cgroups, LANDLOCK_ACCESS_FS_READ_FILE},
	};
	const char *step;
	int r;

	snprintf(cgroups, sizeof(cgroups), "/proc/self/fd/%d", daemon->cgroup.root);
	r = lockdown(places, ARRAY_SIZE(places), &step);

	if (r < 0)
		die(step, r);
}

static void observe_calls(struct daemon *daemon)
{
	daemon->observers[0] = (struct call_observer){
		audit_call_admitted, audit_call_ended, NULL, daemon->service.audit};
	daemon->observers[1] = (struct call_observer){
		control_events_begun, control_events_ended, control_events_refused, NULL};
	daemon->network = (struct egress_observer){
		control_network_denied, control_network_closed, &daemon->service};
	daemon->service.observers = daemon->observers;
	daemon->service.n_observers = ARRAY_SIZE(daemon->observers);
}

/* Does everything that lock-down would prevent. */
static void start(struct daemon *daemon)
{
	int r;

	tzset(); /* reads a file, which logging would do later */
	check_host();
	startup_keep_memory();
	peer_auth_init();
	settle_config(daemon);
	daemon->service.idle = on_idle;
	unread_init(&daemon->service.unread);
	daemon->service.started = clock_now();
	daemon->service.started_unix_ms = clock_unix_ms();
	probe_features(daemon);
	check_features(daemon);
	own_config(daemon);
	open_state(daemon);
	open_journal(daemon);
	open_audit(daemon);
	start_spawner(daemon);
	start_egress(daemon);
	bind_sockets(daemon);
	start_some_loop(daemon);
	if (loop_turn_start(daemon->service.base) < 0 || loop_share_start(daemon->service.base) < 0)
		die_with("out of memory");
	daemon->service.admission.scheduler =
		scheduler_new(daemon->service.base, &daemon->service.config->host);
	daemon->service.workspaces = workspaces_new(daemon->service.base, daemon->spawner,
		daemon->service.admission.scheduler, daemon->own_paths, daemon->managed_fd);
	if (daemon->service.workspaces) {
		workspaces_set_cgroups(daemon->service.workspaces, daemon->cgroup.root);
		workspaces_use_egress(daemon->service.workspaces, daemon->service.egress);
	}
	daemon->service.pipes = pipe_stock_new(daemon->service.base);
	observe_calls(daemon);
	if (daemon->config_source)
		daemon->config_reload = daemon->service.config_reload =
			config_reload_new(&daemon->service, daemon->config_source, daemon->spawner);
	if (daemon->options.connection_fd < 0)
		daemon->service.selftest = selftest_new(&daemon->service, control_selftest_ended);
	daemon->service.selftest_refuses = daemon->service.selftest ? selftest_refuses : NULL;
	if (!daemon->service.pipes || !daemon->service.admission.scheduler ||
		!daemon->service.workspaces || (daemon->config_source && !daemon->config_reload) ||
		(daemon->options.connection_fd < 0 && !daemon->service.selftest))
		die_with("out of memory");
	if (workspaces_own_shown(daemon->service.workspaces, daemon->service.config))
		die_with("readonly_paths would show cloister's own files");
	workspaces_reload(daemon->service.workspaces, daemon->service.config);
	r = spawner_link_watch(daemon->spawner, daemon->service.base, on_spawner_lost, daemon);
	if (r < 0)
		die("cannot watch cloister-spawner", r);
	if (daemon->service.egress)
		r = egress_link_watch(
			daemon->service.egress, daemon->service.base, &daemon->network);
	if (r < 0)
		die("cannot watch cloister-egress", r);
	daemon->removal = removal_new(
		daemon->service.base, daemon->service.workspaces, daemon->service.config);
	if (!daemon->removal)
		die_with("out of memory");
	(void)short_timeslice();
	lock_down(daemon);
	r = audit_start(daemon->service.audit);
	if (r < 0)
		die("cannot start the audit log's thread", r);
	r = keys_start(daemon->service.keys, daemon->service.base);
	if (r < 0)
		die("cannot start the journal's thread", r);
	r = log_writer_start();
	if (r < 0)
		die("cannot start the log's thread", r);
	(void)atexit(log_writer_flush);
}

static void serve(struct daemon *daemon)
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
		r = listener_start(daemon->listener, &daemon->service, &agent_endpoint);
		if (r == 0 && daemon->control)
			r = listener_start(daemon->control, &daemon->service, &control_endpoint);
		log_info("listening on %s", daemon->options.agent_fd >= 0
						    ? "the socket that was passed"
						    : daemon->options.agent_socket);
		selftest_start(daemon->service.selftest);
	}
	/* the reader of stderr gets these lines before it hears that the service is ready */
	log_writer_flush();
	if (r < 0)
		die("cannot serve", r);
	notify_start(&daemon->service);
	loop_run(daemon->service.base);
}

/*
 * Ends everything in the order of dependence: clients, workspaces, then the spawner with the rest.
 */
static void stop(struct daemon *daemon)
{
	listener_free(daemon->listener);
	listener_free(daemon->control);
	agent_conns_close();
	unauthorized_clients_close();
	selftest_free(daemon->service.selftest);
	workspaces_free(daemon->service.workspaces);
	removal_free(daemon->removal);
	scheduler_free(daemon->service.admission.scheduler);
	spawner_link_free(daemon->spawner);
	egress_link_free(daemon->service.egress);
	listener_free(daemon->egress);
	shutdown_free(daemon->shutdown);
	pipe_stock_free(daemon->service.pipes);
	config_reload_free(daemon->config_reload);
	keys_free(daemon->service.keys);
	audit_free(daemon->service.audit);
	notify_close();
	config_release(daemon->service.config);
	config_source_free(daemon->config_source);
	loop_share_stop();
	loop_turn_stop();
	timers_stop();
	event_base_free(daemon->service.base);
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
			daemon.service.config && is_system_mode(&daemon), &message) < 0)
		die_with(message);
	if (daemon.options.doctor)
		return examine_host(&daemon);
	start(&daemon);
	serve(&daemon);
	stop(&daemon);
	return daemon.failed ? 1 : 0;
}
