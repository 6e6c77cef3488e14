// SPDX-License-Identifier: Apache-2.0
/*
 * cloister-spawner: makes the namespaces of workspaces and starts the worker and the files process
 * in each. cloisterd starts it with one socketpair. It takes fixed-size requests and descriptors
 * that cloisterd has checked, and the only client bytes that it handles are paths for lookers,
 * which it does not read. It ends when cloisterd does, and all its children end with it.
 */
#include "common/channel.h"
#include "common/cleanup.h"
#include "common/fixed_fds.h"
#include "common/limits.h"
#include "common/monotonic.h"
#include "common/program.h"
#include "worker/setup.h"
#include "worker/spawner/cell_make.h"
#include "worker/spawner/layer_drops.h"
#include "worker/spawner/layer_folds.h"
#include "worker/spawner/looker.h"
#include "worker/spawner/policy.h"
#include "worker/spawner/spawner_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static _Noreturn void die(const char *what, int error)
{
	fprintf(stderr, "cloister-spawner: %s: %s\n", what, strerror(error < 0 ? -error : error));
	exit(1);
}

/* State that lives as long as the process. */
struct spawner {
	struct channel channel;
	struct spawner_setup setup;
	struct cell_cgroups cgroups;
	struct cell_ids ids;
	struct cell_homes homes;
	struct cell_layers layers;
	struct layer_drops drops, template_drops;
	struct layer_folds folds;
	struct copies copies;
	struct cell_privates privates;
	struct cell_spares spares;
	struct cell_starts starts;
	struct lookers lookers;
	struct policy *policy; /* NULL without a configuration */
	struct cell_maker maker;
};

/*
 * A cloisterd that works as intended sends nothing that is refused. One that was taken over must
 * not fill the log.
 */
static void log_refusal(uint64_t cell, const char *reason)
{
	static unsigned logged;

	if (logged++ < LIMIT_REFUSALS_LOGGED)
		fprintf(stderr, "cloister-spawner: refused cell %" PRIu64 ": %s\n", cell, reason);
}

/* The requests and their answers. The first descriptor of a request is its directory. */
static const struct request {
	unsigned n_fds, n_pidfds;
	uint8_t answer;
} requests[] = {
	[SPAWNER_OPEN] = {SPAWNER_OPEN_FDS, SPAWNER_OPENED_FDS, SPAWNER_OPENED},
	[SPAWNER_OPEN_FILES] = {SPAWNER_OPEN_FILES_FDS, 1, SPAWNER_FILES_OPENED},
	[SPAWNER_PREPARE] = {SPAWNER_PREPARE_FDS, SPAWNER_OPENED_FDS, SPAWNER_OPENED},
	[SPAWNER_ASSIGN] = {SPAWNER_ASSIGN_FDS, 0, SPAWNER_ASSIGNED},
	[SPAWNER_LOOK_UP] = {1, 1, SPAWNER_LOOKED_UP},
	[SPAWNER_FREEZE] = {SPAWNER_FREEZE_FDS, 0, SPAWNER_COPIED},
	[SPAWNER_IMPORT] = {1, 0, SPAWNER_COPIED},
	[SPAWNER_UNPACK] = {SPAWNER_UNPACK_FDS, 0, SPAWNER_COPIED},
};

_Static_assert((int)SPAWNER_OPEN_ROOT == 0 && (int)SPAWNER_OPEN_FILES_ROOT == 0 &&
		       (int)SPAWNER_ASSIGN_ROOT == 0 && (int)SPAWNER_FREEZE_ROOT == 0 &&
		       (int)SPAWNER_UNPACK_SOURCE == 0,
	"look_for looks at the first");

/* A request whose directory is being looked up. */
struct job {
	struct spawner *spawner;
	uint8_t type;
	uint64_t number;
	struct spawner_open request;
	struct spawner_copy copy; /* of a request for a copy; its texts are in payload */
	char *payload;
	int fds[CHANNEL_FDS_MAX];
	unsigned n_fds;
};

/*
 * Carries out a request whose directory is known. Returns 0 with the pidfds and the cell's
 * sockets, or -errno. If @ret_start is set, the work goes on and the answer follows when it has
 * ended.
 */
static int act(const struct cell_maker *maker, const struct job *job, struct place *place,
	int *ret_pidfds, struct cell_sockets *ret_network, struct cell_start **ret_start,
	const char **ret_step)
{
	const struct spawner_open *request = &job->request;

	if (maker->keyring_error < 0) {
		*ret_step = "leave the caller's session keyring";
		return maker->keyring_error;
	}
	switch (job->type) {
	case SPAWNER_OPEN:
		return cell_make(maker, job->number, request, job->fds, place, ret_pidfds,
			ret_network, ret_step);
	case SPAWNER_OPEN_FILES:
		return cell_make_files(maker, request, job->fds, place, ret_start, ret_step);
	case SPAWNER_PREPARE:
		return cell_prepare(maker, job->number, request, job->fds, ret_pidfds, ret_step);
	default:
		return cell_assign(maker, request, job->fds, place, ret_network, ret_step);
	}
}

/* Waits while the kernel has no room for the descriptors, as cloisterd does at its end. */
static void flush(struct channel *channel)
{
	int r;

	while (channel_is_short(r = channel_flush(channel)))
		poll(NULL, 0, CHANNEL_SHORT_PAUSE_MS);
	if (r < 0)
		die("answer", r);
}

static void answer(struct channel *channel, uint8_t type, uint64_t number, struct text payload,
	const int *fds, unsigned n)
{
	int r = channel_send(channel, type, number, payload, fds, n);

	if (r < 0)
		die("answer", r);
	flush(channel);
}

static bool is_copy(uint8_t type)
{
	return type == SPAWNER_FREEZE || type == SPAWNER_IMPORT || type == SPAWNER_UNPACK;
}

static void answer_failure(const struct job *job, const char *step, int r)
{
	if (r == -SPAWNER_REFUSAL)
		log_refusal(job->number, step);
	setup_report_failure(&job->spawner->channel,
		is_copy(job->type) ? SPAWNER_COPIED : SPAWNER_OPEN_FAILED, job->number, step, r);
}

/* The answer follows when the copier has ended. */
static void copy(const struct job *job, struct place *place)
{
	const struct cell_maker *maker = &job->spawner->maker;
	const char *step;
	int r;

	if (job->type == SPAWNER_IMPORT)
		r = copies_import(maker, job->number, &job->copy, place, &step);
	else if (job->type == SPAWNER_UNPACK)
		r = copies_unpack(maker, job->number, &job->copy, place,
			job->fds[SPAWNER_UNPACK_REPORT], &step);
	else
		r = copies_freeze(maker, job->number, &job->copy, place,
			job->fds[SPAWNER_FREEZE_WORKER], &step);

	if (r < 0)
		answer_failure(job, step, r);
}

static void perform(const struct job *job, struct place *place)
{
	const struct request *kind = &requests[job->type];
	struct cell_start *start = NULL;
	struct cell_sockets network = cell_sockets_none();
	int fds[SPAWNER_OPENED_MOST], r;
	unsigned n_fds = kind->n_pidfds;
	const char *step;

	r = act(&job->spawner->maker, job, place, fds, &network, &start, &step);
	if (r < 0)
		answer_failure(job, step, r);
	else if (start)
		start->number = job->number;
	if (r < 0 || start)
		return;
	n_fds += cell_sockets_list(&network, &fds[n_fds]);
	answer(&job->spawner->channel, kind->answer, job->number, (struct text){NULL, 0}, fds,
		n_fds);
}

static void tell_place(const struct job *job, struct place *place)
{
	static uint8_t payload[WIRE_PAYLOAD_MAX];
	static struct spawner_looked_up message;
	struct wire_writer writer = wire_writer(payload, sizeof(payload));
	int root = TAKE_FD(place->root);

	if (place->error < 0) {
		close_fd(&root);
		answer_failure(job, place->step, place->error);
		return;
	}
	message.kind = place->kind;
	message.may_enter = place->may_enter;
	message.n_parents = place->n_parents;
	memcpy(message.parents, place->parents, place->n_parents * sizeof(place->parents[0]));
	spawner_looked_up_put(&writer, &message);
	answer(&job->spawner->channel, SPAWNER_LOOKED_UP, job->number,
		(struct text){(char *)payload, writer.len}, &root, 1);
}

static void job_free(struct job *job)
{
	for (unsigned i = 0; i < job->n_fds; i++)
		close(job->fds[i]);
	free(job->payload);
	free(job);
}

static void on_looked(void *context, int error, struct place *place)
{
	struct job *job = context;

	if (error < 0)
		answer_failure(job, "look at the workspace's directory", error);
	else if (job->type == SPAWNER_LOOK_UP)
		tell_place(job, place);
	else if (is_copy(job->type))
		copy(job, place);
	else
		perform(job, place);
	job_free(job);
}

static void take_texts(const struct spawner_look_up *message,
	char ret_tenant[LIMIT_CONFIG_NAME_BYTES + 1], char ret_path[LIMIT_PATH_BYTES])
{
	snprintf(ret_tenant, LIMIT_CONFIG_NAME_BYTES + 1, "%.*s", (int)message->tenant.len,
		message->tenant.data ? message->tenant.data : "");
	snprintf(ret_path, LIMIT_PATH_BYTES, "%.*s", (int)message->path.len,
		message->path.data ? message->path.data : "");
}

/* Starts the look-up that the request needs. */
static int look_for(struct job *job, struct text payload)
{
	struct spawner *spawner = job->spawner;
	struct look_request wanted = {.fd = job->fds[0]};
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1], path[LIMIT_PATH_BYTES];
	struct spawner_look_up look_up;

	if (job->type == SPAWNER_LOOK_UP) {
		if (spawner_look_up_get(payload, &look_up) < 0)
			die("request", EBADMSG);
		take_texts(&look_up, tenant, path);
		wanted.kind = LOOK_UP;
		wanted.below = look_up.below;
		wanted.file = look_up.file;
		wanted.tenant = tenant;
		wanted.path = path;
	} else {
		wanted.kind = LOOK_AGAIN;
		wanted.file = job->type == SPAWNER_UNPACK;
		wanted.tenant = job->request.tenant;
		/* Only a worker shows read-only paths. */
		if (job->type != SPAWNER_OPEN_FILES && !is_copy(job->type))
			wanted.readonly = cell_readonly_paths(&spawner->maker, job->request.tenant);
	}
	return lookers_ask(&spawner->lookers, &wanted, on_looked, job);
}

/* Decodes the payload of a request about a cell, or for a copy. Returns 0 or -EBADMSG. */
static int read_request(struct job *job, const struct channel_frame *frame)
{
	struct text kept = {NULL, frame->payload.len};

	if (frame->type == SPAWNER_LOOK_UP)
		return 0;
	if (!is_copy(frame->type))
		return spawner_open_get(frame->payload, &job->request);
	kept.data = job->payload = malloc(kept.len + 1);
	if (!job->payload)
		die("request", ENOMEM);
	if (kept.len > 0)
		memcpy(job->payload, frame->payload.data, kept.len);
	return spawner_copy_get(kept, &job->copy);
}

static void handle(struct spawner *spawner, struct channel_frame *frame)
{
	const struct request *kind =
		frame->type < ARRAY_SIZE(requests) ? &requests[frame->type] : NULL;
	struct job *job = calloc(1, sizeof(*job));
	int r = 0;

	if (!job)
		die("request", ENOMEM);
	if (!kind || kind->n_fds == 0 || frame->n_fds != kind->n_fds ||
		read_request(job, frame) < 0)
		die("request", EBADMSG);
	job->spawner = spawner;
	job->type = frame->type;
	job->number = frame->call;
	job->n_fds = frame->n_fds;
	memcpy(job->fds, frame->fds, sizeof(job->fds));
	frame->n_fds = 0;
	if (job->type != SPAWNER_PREPARE) {
		r = look_for(job, frame->payload);
		if (r == 0)
			return;
		answer_failure(job, "look at the workspace's directory", r);
	} else {
		perform(job, NULL);
	}
	job_free(job);
}

/* Takes a report of a files process's start, or ends the start at its deadline. */
static void attend(struct channel *channel, struct cell_start *start)
{
	uint64_t number = start->number;
	int pidfd, r = cell_start_hear(start, -1);

	if (r == 0)
		return;
	pidfd = cell_start_end(start, r < 0 ? r : 0);
	if (pidfd < 0)
		setup_report_failure(
			channel, SPAWNER_OPEN_FAILED, number, "start cloister-files", pidfd);
	else
		answer(channel, SPAWNER_FILES_OPENED, number, (struct text){NULL, 0}, &pidfd, 1);
}

static void read_policy(struct spawner *spawner, const struct channel_frame *frame)
{
	if (frame->n_fds != 0 || frame->payload.len != 0)
		die("request", EBADMSG);
	if (spawner->policy && policy_read(spawner->policy, spawner->setup.system) < 0)
		fprintf(stderr, "cloister-spawner: the configuration was not reloaded in the "
				"spawner: the old one stays in force\n");
}

static void forget_home(struct spawner *spawner, const struct channel_frame *frame)
{
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1], name[LIMIT_PATH_BYTES];
	struct spawner_look_up removed;

	if (frame->n_fds != 0 || spawner_look_up_get(frame->payload, &removed) < 0)
		die("request", EBADMSG);
	take_texts(&removed, tenant, name);
	cell_homes_forget(&spawner->homes, tenant, name);
}

static void clear_layer(struct spawner *spawner, const struct channel_frame *frame)
{
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1], name[LIMIT_PATH_BYTES];
	struct spawner_look_up dropped;

	if (frame->n_fds != 0 || spawner_look_up_get(frame->payload, &dropped) < 0)
		die("request", EBADMSG);
	take_texts(&dropped, tenant, name);
	if (!dropped.below)
		layer_folds_look(&spawner->folds);
	layer_drops_add(dropped.below ? &spawner->template_drops : &spawner->drops, tenant, name);
}

static void fold_layers(struct spawner *spawner, const struct channel_frame *frame)
{
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1], path[LIMIT_PATH_BYTES];
	struct spawner_look_up wanted;

	if (frame->n_fds != 0 || spawner_look_up_get(frame->payload, &wanted) < 0)
		die("request", EBADMSG);
	take_texts(&wanted, tenant, path);
	layer_folds_add(&spawner->folds, tenant, path);
}

static void fork_template(struct spawner *spawner, const struct channel_frame *frame)
{
	struct spawner_copy request;
	const char *step;
	int r;

	if (frame->n_fds != 0 || spawner_copy_get(frame->payload, &request) < 0)
		die("request", EBADMSG);
	r = copies_fork(&spawner->maker, frame->call, &request, &step);
	if (r == -SPAWNER_REFUSAL)
		log_refusal(frame->call, step);
	if (r < 0)
		setup_report_failure(&spawner->channel, SPAWNER_COPIED, frame->call, step, r);
}

/* What workspaces and an earlier spawner have left. */
static void find_left_overs(struct spawner *spawner)
{
	cell_homes_sweep(&spawner->homes, &spawner->lookers);
	layer_drops_find(&spawner->drops, spawner->policy != NULL);
	layer_drops_find(&spawner->template_drops, spawner->policy != NULL);
}

static void set_beside(struct spawner *spawner, const struct channel_frame *frame)
{
	bool was = spawner->homes.beside;

	if (frame->n_fds != 0 || frame->payload.len != 0 || frame->call > 1)
		die("request", EBADMSG);
	cell_homes_set_beside(&spawner->homes, frame->call == 1);
	layer_folds_set_beside(&spawner->folds, frame->call == 1);
	if (was && frame->call == 0)
		find_left_overs(spawner);
}

static void let_go(struct spawner *spawner, const struct channel_frame *frame)
{
	if (frame->n_fds != 0 || frame->payload.len != 0)
		die("request", EBADMSG);
	/* A spare cell may be a workspace's already for cloisterd, whose request still waits. */
	cell_spares_let_go(&spawner->spares, frame->call);
	cell_privates_let_go(&spawner->privates, frame->call);
}

static void serve_requests(struct spawner *spawner)
{
	struct channel *channel = &spawner->channel;
	struct channel_frame frame;
	int r = channel_fill(channel, WIRE_FRAME_MAX);

	if (r == -EPIPE) {
		cell_cgroups_done(&spawner->cgroups);
		lookers_end(&spawner->lookers);
		exit(0);
	}
	if (r < 0 && r != -EAGAIN)
		die("read", r);
	while ((r = channel_next(channel, &frame)) > 0) {
		if (frame.type == SPAWNER_RELOAD)
			read_policy(spawner, &frame);
		else if (frame.type == SPAWNER_REMOVED)
			forget_home(spawner, &frame);
		else if (frame.type == SPAWNER_DROPPED)
			clear_layer(spawner, &frame);
		else if (frame.type == SPAWNER_FOLD)
			fold_layers(spawner, &frame);
		else if (frame.type == SPAWNER_FORK)
			fork_template(spawner, &frame);
		else if (frame.type == SPAWNER_LET_GO)
			let_go(spawner, &frame);
		else if (frame.type == SPAWNER_BESIDE)
			set_beside(spawner, &frame);
		else
			handle(spawner, &frame);
		channel_frame_done(&frame);
	}
	if (r < 0)
		die("request", r);
}

/* Reaps children. They are the cells' processes; cloisterd watches them by pidfds of its own. */
static void reap(int signal_fd, struct spawner *spawner)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;

	(void)!read(signal_fd, &info, sizeof(info));
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		pid_t files = 0;
		uint64_t copy;
		int result;

		if (copies_reaped(&spawner->copies, pid, status, &copy, &result)) {
			setup_report_failure(
				&spawner->channel, SPAWNER_COPIED, copy, "copy the files", result);
			continue;
		}
		if (cell_starts_reaped(&spawner->starts, pid, &files) && files > 0) {
			cell_cgroups_replace(&spawner->cgroups, pid, files);
			cell_ids_replace(&spawner->ids, pid, files);
			cell_layers_replace(&spawner->layers, pid, files);
			continue;
		}
		cell_cgroups_reaped(&spawner->cgroups, pid);
		cell_ids_reaped(&spawner->ids, pid);
		cell_layers_reaped(&spawner->layers, pid);
		layer_drops_reaped(&spawner->drops, pid);
		layer_drops_reaped(&spawner->template_drops, pid);
		layer_folds_reaped(&spawner->folds, pid, status);
		cell_spares_reaped(&spawner->spares, pid);
		cell_privates_reaped(&spawner->privates, pid);
		cell_homes_reaped(&spawner->homes, pid, status);
		lookers_reaped(&spawner->lookers, pid);
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
		die("sigprocmask", errno);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		die("signalfd", errno);
	return fd;
}

/*
 * cloisterd writes the command line before it serves any client: the mode, the configuration ("":
 * there is none) and, without a configuration, the user's read-only paths, then "egress" if the
 * user has allowed hosts.
 */
static void read_arguments(struct spawner *spawner, int argc, char **argv)
{
	int r;

	for (int i = 4; i < argc; i++)
		if (strcmp(argv[i], "egress") == 0)
			spawner->maker.network = true;
		else if (strcmp(argv[i], "beside") == 0)
			spawner->homes.beside = spawner->folds.beside = true;
		else
			die("arguments", EINVAL);
	if (argc < 4)
		die("arguments", EINVAL);
	spawner->setup.system = strcmp(argv[1], "system") == 0;
	spawner->maker.readonly = argv[3];
	r = *argv[2] ? policy_open(argv[2], &spawner->policy) : 0;
	if (r < 0)
		die(argv[2], r);
	if (spawner->setup.system && !spawner->policy)
		die("system mode without a configuration", EINVAL);
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

static void set_up(struct spawner *spawner)
{
	const char *step;
	int r = spawner_setup(&spawner->setup, &step);

	if (r == 0)
		r = learn_ids(spawner, &step);
	if (r < 0) {
		setup_report_failure(&spawner->channel, SPAWNER_FAILED, 0, step, r);
		die(step, r);
	}
	cell_cgroups_clear(&spawner->cgroups);
	if (channel_send(&spawner->channel, SPAWNER_READY, 0, (struct text){NULL, 0}, NULL, 0) <
			0 ||
		channel_flush(&spawner->channel) < 0)
		die("answer", errno);
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
		die("leave real-time scheduling", errno);
	(void)setrlimit(RLIMIT_NICE, &none);
	(void)setrlimit(RLIMIT_RTPRIO, &none);
	if (getpriority(PRIO_PROCESS, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, 0);
}

#define POLLED (2 + LIMIT_FILES_STARTS + LIMIT_LOOKERS)

/*
 * Fills in the descriptors to poll: cloisterd's channel, the ends of children, the running starts
 * and the lookers.
 */
static nfds_t watch(
	struct spawner *spawner, int signal_fd, struct pollfd poll_fds[POLLED], int *ret_timeout_ms)
{
	const struct cell_start *start;
	int look_ms, copy_ms = copies_bound(&spawner->copies);
	nfds_t n = 2;

	poll_fds[0] = (struct pollfd){.fd = FD_SPAWNER_CHANNEL, .events = POLLIN};
	poll_fds[1] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
	*ret_timeout_ms = cell_cgroups_tidy(&spawner->cgroups);
	LIST_FOREACH (start, &spawner->starts.list, entry) {
		int left = monotonic_left_ms(start->deadline);

		/*
		 * -1, which poll(2) ignores, for a start that is over and whose helper is not
		 * reaped yet
		 */
		poll_fds[n++] = (struct pollfd){.fd = start->report, .events = POLLIN};
		if (start->report >= 0 && (*ret_timeout_ms < 0 || left < *ret_timeout_ms))
			*ret_timeout_ms = left;
	}
	n += lookers_poll(&spawner->lookers, &poll_fds[n], &look_ms);
	if (look_ms >= 0 && (*ret_timeout_ms < 0 || look_ms < *ret_timeout_ms))
		*ret_timeout_ms = look_ms;
	if (copy_ms >= 0 && (*ret_timeout_ms < 0 || copy_ms < *ret_timeout_ms))
		*ret_timeout_ms = copy_ms;
	return n;
}

static void attend_starts(struct spawner *spawner, const struct pollfd *poll_fds)
{
	struct cell_start *start = LIST_FIRST(&spawner->starts.list), *next;

	for (; start; start = next, poll_fds++) {
		next = LIST_NEXT(start, entry);
		if (start->report >= 0 &&
			(poll_fds->revents || monotonic_left_ms(start->deadline) == 0))
			attend(&spawner->channel, start);
	}
}

static _Noreturn void serve(struct spawner *spawner, int signal_fd)
{
	static struct pollfd poll_fds[POLLED];

	for (;;) {
		int timeout_ms;
		nfds_t n = watch(spawner, signal_fd, poll_fds, &timeout_ms);

		if (poll(poll_fds, n, timeout_ms) < 0) {
			if (errno != EINTR)
				die("poll", errno);
			continue;
		}
		/*
		 * First, because poll_fds lists the starts in the order that they still have now.
		 */
		attend_starts(spawner, &poll_fds[2]);
		if (poll_fds[1].revents)
			reap(poll_fds[1].fd, spawner);
		if (poll_fds[0].revents)
			serve_requests(spawner);
		lookers_serve(&spawner->lookers);
	}
}

int main(int argc, char **argv)
{
	static struct spawner spawner;
	int signal_fd;

	/* Before any descriptor is opened that could get this number. */
	cell_cgroups_init(
		&spawner.cgroups, fcntl(FD_SPAWNER_CGROUP, F_GETFD) < 0 ? -1 : FD_SPAWNER_CGROUP);
	cell_ids_init(&spawner.ids, (struct cell_id){geteuid(), getegid()}, FD_SPAWNER_MANAGED);
	cell_homes_init(&spawner.homes, spawner.ids.managed);
	cell_layers_init(&spawner.layers);
	cell_privates_init(&spawner.privates);
	layer_drops_init(&spawner.drops, spawner.ids.managed);
	layer_drops_init(&spawner.template_drops,
		spawner.ids.managed < 0 ? -1
					: openat(spawner.ids.managed, "../" TEMPLATES,
						  O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	layer_folds_init(&spawner.folds, spawner.ids.managed, &spawner.drops);
	copies_init(&spawner.copies);
	signal(SIGPIPE, SIG_IGN);
	leave_terminal();
	be_as_others();
	channel_init(&spawner.channel, FD_SPAWNER_CHANNEL, FD_SPAWNER_CHANNEL, CHANNEL_TAKES_FDS);
	spawner.setup = (struct spawner_setup){
		.channel = &spawner.channel, .uid = geteuid(), .gid = getegid()};
	read_arguments(&spawner, argc, argv);
	if (program_open("cloister-worker", &spawner.maker.worker_program) < 0 ||
		program_open("cloister-files", &spawner.maker.files_program) < 0 ||
		program_open("cloister-unpack", &spawner.maker.unpack_program) < 0)
		die("cannot find cloister-worker, cloister-files and cloister-unpack beside the "
		    "executable",
			ENOENT);
	if (cell_starts_init(&spawner.starts) < 0)
		die("cell_starts_init", errno);
	lookers_init(&spawner.lookers);
	signal_fd = watch_children();
	cell_sockets_load();
	set_up(&spawner);
	spawner.maker.ids = &spawner.ids;
	spawner.maker.homes = &spawner.homes;
	spawner.maker.layers = &spawner.layers;
	spawner.maker.copies = &spawner.copies;
	spawner.maker.privates = &spawner.privates;
	spawner.homes.policy = spawner.policy;
	spawner.maker.cgroups = &spawner.cgroups;
	LIST_INIT(&spawner.spares);
	spawner.maker.spares = &spawner.spares;
	spawner.maker.policy = spawner.policy;
	spawner.maker.keyring_error = spawner.setup.keyring_error;
	spawner.maker.starts = &spawner.starts;
	if (!spawner.homes.beside)
		find_left_overs(&spawner);
	lookers_serve(&spawner.lookers);
	serve(&spawner, signal_fd);
}
