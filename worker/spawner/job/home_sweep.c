// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the spawner and in its child, the home cleaner. The tree is hostile, and a cell may be
 * changing it. Measuring needs the spawner's capabilities, because commands may take permissions
 * away from their own directories. Removing is done as the id that the tree belongs to, without
 * any.
 */
#include "worker/spawner/job/home_sweep.h"

#include "common/cleanup.h"
#include "worker/tree_clear.h"
#include "worker/tree_size.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#define UNMAPPED_GID 65534 /* user_namespaces(7) */
#define KILLED_MAX   8     /* for instance where memory is short; then the next start tries again */

struct cleaner {
	struct forked forked; /* first */
	int fd;
	bool hurries;
	uint64_t max_bytes;
};

/* The home cleaner. */

/*
 * Commands choose how long the disk takes for each of their files, for instance by FS_DIRSYNC_FL of
 * ioctl_iflags(2), so the time that passes has a bound as well.
 */
static int bound_turn(void *context)
{
	static const struct rlimit turn = {LIMIT_SWEEP_CPU_S, LIMIT_SWEEP_CPU_S + 1};
	static const struct itimerval end = {.it_value.tv_sec = LIMIT_SWEEP_TURN_S};
	sigset_t set;

	(void)context;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	if (signal(SIGALRM, SIG_DFL) == SIG_ERR || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0 ||
		setrlimit(RLIMIT_CPU, &turn) < 0 || setitimer(ITIMER_REAL, &end, NULL) < 0)
		return -errno;
	return 0;
}

static int take_time(void *context)
{
	const struct cleaner *cleaner = context;

	return cleaner->hurries ? 0 : forked_take_idle_time(context);
}

static int find_owner(void *context)
{
	struct cleaner *cleaner = context;
	struct stat stat_buf;

	if (fstat(cleaner->fd, &stat_buf) < 0)
		return -errno;
	cleaner->forked.uid = stat_buf.st_uid;
	/* In user mode: that of a state directory with S_ISGID, which the namespace does not map.
	 */
	cleaner->forked.gid = stat_buf.st_gid == UNMAPPED_GID ? getegid() : stat_buf.st_gid;
	return 0;
}

/* Leftover processes of the cell may exchange names, and the host's files are visible here. */
static int clear_in_cleaner(void *context)
{
	_cleanup_close_ int own_fds = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct cleaner *cleaner = context;
	uint64_t removed;

	/* A command may have taken away its own permissions. */
	if (own_fds < 0 || fchmod(cleaner->fd, S_IRWXU) < 0)
		return -errno;
	return tree_clear(cleaner->fd, own_fds, &removed);
}

static int measure_home(void *context)
{
	const struct cleaner *cleaner = context;
	const struct tree_size most = {.bytes = cleaner->max_bytes, .files = LIMIT_HOME_FILES};
	struct tree_size size;

	return tree_size(cleaner->fd, &most, &size) < 0 ? -EFBIG : 0;
}

/* What is measured is bounded, and would begin again. */
static const struct setup_step measure_steps[] = {
	{"take idle time only", take_time},
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
};

static const struct setup_step clear_steps[] = {
	{"bound its turn", bound_turn},
	{"take idle time only", take_time},
	{"die with the spawner", forked_die_with_spawner},
	{"close what it does not need", forked_close_others},
	{"find the tree's owner", find_owner},
	{"become the tree's owner", forked_become_owner},
	{"die with the spawner", forked_die_with_spawner},
	{"become non-dumpable", setup_non_dumpable},
};

static const struct forked_kind measurer = {
	"cloister-sweep", measure_steps, ARRAY_SIZE(measure_steps), measure_home};
static const struct forked_kind clearer = {
	"cloister-sweep", clear_steps, ARRAY_SIZE(clear_steps), clear_in_cleaner};

/* The spawner. */

int sweep_add(struct sweep_queue *queue, struct sweep *sweep, const char *tenant)
{
	if (queue->jobs.turns.n_waiting + queue->jobs.turns.n_running == 0)
		queue->late = false;
	sweep->killed = 0;
	return job_add(&queue->jobs, &sweep->job, tenant);
}

bool sweep_goes_on(struct sweep_queue *queue, struct sweep *sweep, int status)
{
	int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	queue->late = queue->late || signal == SIGALRM;
	return signal == SIGALRM || signal == SIGXCPU ||
	       (signal != 0 && sweep->killed++ < KILLED_MAX);
}

bool sweep_hurries(const struct sweep_queue *queue)
{
	return queue->late ||
	       queue->jobs.turns.n_waiting + queue->jobs.turns.n_running > LIMIT_SWEEP_IDLE;
}

static pid_t start_cleaner(
	const struct sweep_queue *queue, const struct forked_kind *kind, int fd, uint64_t max_bytes)
{
	struct cleaner cleaner = {.forked = {.kept = {fd}, .n_kept = 1},
		.fd = fd,
		.hurries = sweep_hurries(queue),
		.max_bytes = max_bytes};

	return forked_start(kind, &cleaner.forked);
}

pid_t sweep_measure(const struct sweep_queue *queue, int fd, uint64_t max_bytes)
{
	return start_cleaner(queue, &measurer, fd, max_bytes);
}

pid_t sweep_clear(const struct sweep_queue *queue, int fd)
{
	return start_cleaner(queue, &clearer, fd, 0);
}
