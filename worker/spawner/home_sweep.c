// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a child of the spawner. The tree is hostile, and a cell may be changing it. Measuring
 * needs the spawner's capabilities, because commands may take permissions away from their own
 * directories. Removing is done as the id that the tree belongs to, without any.
 */
#include "worker/spawner/home_sweep.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "worker/confine.h"
#include "worker/spawner/forked.h"
#include "worker/tree_clear.h"
#include "worker/tree_size.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

enum home_swept home_measure(int fd, uint64_t max_bytes)
{
	const struct tree_size most = {.bytes = max_bytes, .files = LIMIT_HOME_FILES};
	struct tree_size size;

	return tree_size(fd, &most, &size) < 0 ? HOME_TOO_LARGE : HOME_SWEPT;
}

static enum home_swept clear(struct forked *forked, int fd)
{
	struct stat stat_buf;
	uint64_t removed;
	int r = fstat(fd, &stat_buf) < 0 ? -errno : 0;

	if (r == 0) {
		forked->uid = stat_buf.st_uid;
		forked->gid = stat_buf.st_gid;
		r = forked_become_owner(forked);
	}
	if (r == 0)
		r = forked_die_with_spawner(forked);
	if (r == 0)
		r = confine_non_dumpable();
	/* A command may have taken away its own permissions. */
	if (r == 0 && fchmod(fd, S_IRWXU) < 0)
		r = -errno;
	if (r == 0)
		r = tree_clear(fd, &removed);
	return r < 0 ? HOME_NOT_CLEARED : HOME_SWEPT;
}

/*
 * Commands choose how long the disk takes for each of their files, for instance by FS_DIRSYNC_FL of
 * ioctl_iflags(2), so the time that passes has a bound as well.
 */
static int bound_turn(void)
{
	static const struct rlimit turn = {LIMIT_SWEEP_CPU_S, LIMIT_SWEEP_CPU_S + 1};
	static const struct itimerval end = {.it_value.tv_sec = LIMIT_SWEEP_TURN_S};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	if (signal(SIGALRM, SIG_DFL) == SIG_ERR || sigprocmask(SIG_UNBLOCK, &set, NULL) < 0 ||
		setrlimit(RLIMIT_CPU, &turn) < 0 || setitimer(ITIMER_REAL, &end, NULL) < 0)
		return -errno;
	return 0;
}

static _Noreturn void be_sweeper(const struct home_sweep *sweep, pid_t parent)
{
	static const struct sched_param none;
	struct forked forked = {.spawner = parent, .kept = {sweep->fd}, .n_kept = 1};

	if (sweep->in_turns && bound_turn() < 0)
		_exit(HOME_NOT_CLEARED);
	(void)prctl(PR_SET_NAME, "cloister-sweep");
	if (!sweep->prompt)
		(void)sched_setscheduler(0, SCHED_IDLE, &none);
	if (forked_die_with_spawner(&forked) < 0 || forked_close_others(&forked) < 0)
		_exit(HOME_NOT_CLEARED);
	_exit((int)(sweep->clear ? clear(&forked, sweep->fd)
				 : home_measure(sweep->fd, sweep->max_bytes)));
}

pid_t home_sweep_start(const struct home_sweep *sweep)
{
	pid_t parent = getpid(), pid = fork();

	if (pid == 0)
		be_sweeper(sweep, parent);
	return pid < 0 ? -errno : pid;
}

bool home_sweep_goes_on(int status)
{
	return home_sweep_is_late(status) || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU);
}

bool home_sweep_is_late(int status)
{
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
}
