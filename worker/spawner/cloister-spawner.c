// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-spawner: makes the namespaces of workspaces and starts the worker and the files process
 * in each. cloisterd starts it with one socketpair. It takes fixed-size requests and descriptors
 * that cloisterd has checked, and the only client bytes that it handles are paths for path
 * resolvers, which it does not read. It ends when cloisterd does, and all its children end with it.
 */
#include "common/cleanup.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/program.h"
#include "common/wire/channel.h"
#include "common/wire/fixed_fds.h"
#include "worker/setup.h"
#include "worker/spawner/spawner_requests.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* Reaps children. They are the cells' processes; cloisterd watches them by pidfds of its own. */
static void reap_children(int signal_fd, struct spawner *spawner)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	(void)!read(signal_fd, &info, sizeof(info));
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		pid_t files = 0;

		if (jobs_reaped(&spawner->jobs, pid, status))
			continue;
		if (cell_starts_reaped(&spawner->starts, pid, &files) && files > 0) {
			cell_cgroups_replace(&spawner->cgroups, pid, files);
			cell_ids_replace(&spawner->ids, pid, files);
			cell_layers_replace(&spawner->layers, pid, files);
			continue;
		}
		cell_cgroups_reaped(&spawner->cgroups, pid);
		cell_ids_reaped(&spawner->ids, pid);
		cell_layers_reaped(&spawner->layers, pid);
		template_memory_reaped(&spawner->templates, pid);
		cell_spares_reaped(&spawner->spares, pid);
		cell_privates_reaped(&spawner->privates, pid);
		cell_homes_reaped(&spawner->homes, pid);
		path_resolvers_reaped(&spawner->resolvers, pid);
	}
}

/*
 * The signals of a terminal or service manager are for cloisterd, which ends everything in order.
 * They are blocked, not ignored, because every command would inherit ignored signals.
 */
static int watch_children(void)
{
	sigset_t set, blocked;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	blocked = set;
	sigaddset(&blocked, SIGINT);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGHUP);
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
		spawner_die("sigprocmask", errno);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		spawner_die("signalfd", errno);
	return fd;
}

/*
 * cloisterd writes the command line before it serves any client: the mode, the configuration ("":
 * there is none) and, without a configuration, the user's read-only paths, then "egress" if the
 * user has allowed hosts.
 */
static void read_spawner_arguments(struct spawner *spawner, int argc, char **argv)
{
	int r;

	for (int i = 4; i < argc; i++)
		if (strcmp(argv[i], "egress") == 0)
			spawner->maker.network = true;
		else if (strcmp(argv[i], "beside") == 0)
			spawner_set_beside(spawner, true);
		else
			spawner_die("arguments", EINVAL);
	if (argc < 4)
		spawner_die("arguments", EINVAL);
	spawner->setup.system = strcmp(argv[1], "system") == 0;
	spawner->maker.readonly = argv[3];
	r = *argv[2] ? policy_open(argv[2], &spawner->policy) : 0;
	if (r < 0)
		spawner_die(argv[2], r);
	if (spawner->setup.system && !spawner->policy)
		spawner_die("system mode without a configuration", EINVAL);
}

/* Runs in the spawner's own namespaces, after its ids have been mapped. */
static int learn_ids(struct spawner *spawner, const char **ret_step)
{
	int r = 0;

	*ret_step = "read the configuration";
	if (spawner->policy)
		r = policy_read(spawner->policy, spawner->setup.system);
	if (r < 0 || !spawner->setup.system)
		return r;
	*ret_step = "find out which ids are mapped and taken";
	return cell_ids_read(&spawner->ids);
}

static void set_up_spawner(struct spawner *spawner)
{
	const char *step;
	int r = spawner_setup(&spawner->setup, &step);

	if (r == 0)
		r = learn_ids(spawner, &step);
	if (r < 0) {
		setup_report_failure(&spawner->channel, SPAWNER_FAILED, 0, step, r);
		spawner_die(step, r);
	}
	cell_cgroups_clear(&spawner->cgroups);
	if (channel_send(&spawner->channel, SPAWNER_READY, 0, (struct text){NULL, 0}, NULL, 0) <
			0 ||
		channel_flush(&spawner->channel) < 0)
		spawner_die("answer", errno);
}

/*
 * Leaves the terminal on which cloisterd may have been started: no process of a workspace may have
 * it. Without a terminal the spawner stays in cloisterd's session, because that may have a CPU
 * share that files processes should get too: startup_come_first().
 */
static void leave_terminal(void)
{
	int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0 || errno != ENXIO || getsid(0) != getppid())
		setsid();
	else
		setpgid(0, 0);
	close_fd(&fd);
}

/*
 * cloisterd's raised priority, and the right to it, must not reach the processes of tenants.
 * Neither must real-time scheduling that cloisterd was started with, or a right to it. sched(7)
 */
static void be_as_others(void)
{
	static const struct sched_param normal;
	static const struct rlimit none;
	int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	if (policy != SCHED_OTHER && policy != SCHED_BATCH && policy != SCHED_IDLE &&
		sched_setscheduler(0, SCHED_OTHER, &normal) < 0)
		spawner_die("leave real-time scheduling", errno);
	(void)setrlimit(RLIMIT_NICE, &none);
	(void)setrlimit(RLIMIT_RTPRIO, &none);
	if (getpriority(PRIO_PROCESS, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, 0);
}

#define POLLED (2 + LIMIT_FILES_STARTS + LIMIT_PATH_RESOLVERS)

/*
 * Fills in the descriptors to poll: cloisterd's channel, the ends of children, the running starts
 * and the path resolvers.
 */
static nfds_t watch_spawner_fds(
	struct spawner *spawner, int signal_fd, struct pollfd poll_fds[POLLED], int *ret_timeout_ms)
{
	const struct cell_start *start;
	int look_ms, job_ms = jobs_bound(&spawner->jobs);
	nfds_t n = 2;

	poll_fds[0] = (struct pollfd){.fd = FD_SPAWNER_CHANNEL, .events = POLLIN};
	poll_fds[1] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
	*ret_timeout_ms = cell_cgroups_tidy(&spawner->cgroups);
	LIST_FOREACH (start, &spawner->starts.list, entry) {
		int left = monotonic_left_ms(start->deadline);

		/* It is over, and its helper is not reaped yet. */
		if (start->report < 0)
			continue;
		poll_fds[n++] = (struct pollfd){.fd = start->report, .events = POLLIN};
		if (*ret_timeout_ms < 0 || left < *ret_timeout_ms)
			*ret_timeout_ms = left;
	}
	n += path_resolvers_poll(&spawner->resolvers, &poll_fds[n], &look_ms);
	if (look_ms >= 0 && (*ret_timeout_ms < 0 || look_ms < *ret_timeout_ms))
		*ret_timeout_ms = look_ms;
	if (job_ms >= 0 && (*ret_timeout_ms < 0 || job_ms < *ret_timeout_ms))
		*ret_timeout_ms = job_ms;
	return n;
}

static void attend_starts(struct spawner *spawner, const struct pollfd *poll_fds)
{
	struct cell_start *start = LIST_FIRST(&spawner->starts.list), *next;

	for (; start; start = next) {
		next = LIST_NEXT(start, entry);
		if (start->report < 0)
			continue;
		if (poll_fds->revents || monotonic_left_ms(start->deadline) == 0)
			spawner_attend(&spawner->channel, start);
		poll_fds++;
	}
}

static _Noreturn void serve_spawner_requests(struct spawner *spawner, int signal_fd)
{
	static struct pollfd poll_fds[POLLED];

	for (;;) {
		int timeout_ms;
		nfds_t n = watch_spawner_fds(spawner, signal_fd, poll_fds, &timeout_ms);

		if (poll(poll_fds, n, timeout_ms) < 0) {
			if (errno != EINTR)
				spawner_die("poll", errno);
			continue;
		}
		/*
		 * First, because poll_fds lists the starts in the order that they still have now.
		 */
		attend_starts(spawner, &poll_fds[2]);
		if (poll_fds[1].revents)
			reap_children(poll_fds[1].fd, spawner);
		if (poll_fds[0].revents)
			spawner_serve_requests(spawner);
		path_resolvers_serve(&spawner->resolvers);
		jobs_look(&spawner->jobs);
	}
}

int main(int argc, char **argv)
{
	static struct spawner spawner;
	int signal_fd;

	jobs_init(&spawner.jobs);
	/* Before any descriptor is opened that could get this number. */
	cell_cgroups_init(
		&spawner.cgroups, fcntl(FD_SPAWNER_CGROUP, F_GETFD) < 0 ? -1 : FD_SPAWNER_CGROUP);
	cell_ids_init(&spawner.ids, (struct cell_id){geteuid(), getegid()}, FD_SPAWNER_MANAGED);
	cell_homes_init(&spawner.homes, &spawner.jobs, spawner.ids.managed);
	cell_layers_init(&spawner.layers);
	cell_privates_init(&spawner.privates, &spawner.jobs);
	layer_drops_init(&spawner.drops, &spawner.jobs, spawner.ids.managed);
	layer_drops_init(&spawner.template_drops, &spawner.jobs,
		spawner.ids.managed < 0 ? -1
					: openat(spawner.ids.managed, "../" TEMPLATES,
						  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	layer_folds_init(&spawner.folds, &spawner.jobs, spawner.ids.managed, &spawner.drops);
	spawner_tell_work(&spawner);
	signal(SIGPIPE, SIG_IGN);
	leave_terminal();
	be_as_others();
	channel_init(&spawner.channel, FD_SPAWNER_CHANNEL, FD_SPAWNER_CHANNEL, CHANNEL_TAKES_FDS);
	spawner.setup = (struct spawner_setup){
		.channel = &spawner.channel, .uid = geteuid(), .gid = getegid()};
	read_spawner_arguments(&spawner, argc, argv);
	if (program_open("cloister-worker", &spawner.maker.worker_program) < 0 ||
		program_open("cloister-files", &spawner.maker.files_program) < 0 ||
		program_open("cloister-unpack", &spawner.maker.unpack_program) < 0)
		spawner_die("cannot find cloister-worker, cloister-files and cloister-unpack "
			    "beside the "
			    "executable",
			ENOENT);
	cell_starts_init(&spawner.starts);
	path_resolvers_init(&spawner.resolvers);
	signal_fd = watch_children();
	cell_sockets_load();
	set_up_spawner(&spawner);
	spawner.maker.ids = &spawner.ids;
	spawner.maker.homes = &spawner.homes;
	spawner.maker.layers = &spawner.layers;
	spawner.maker.copies = &spawner.copies;
	spawner.maker.templates = &spawner.templates;
	spawner.templates.policy = spawner.policy;
	spawner.maker.privates = &spawner.privates;
	spawner.homes.policy = spawner.policy;
	spawner.maker.cgroups = &spawner.cgroups;
	LIST_INIT(&spawner.spares);
	spawner.maker.spares = &spawner.spares;
	spawner.maker.policy = spawner.policy;
	spawner.maker.keyring_error = spawner.setup.keyring_error;
	spawner.maker.starts = &spawner.starts;
	if (!spawner.homes.beside)
		spawner_find_left_overs(&spawner, NULL);
	path_resolvers_serve(&spawner.resolvers);
	serve_spawner_requests(&spawner, signal_fd);
}
