// SPDX-License-Identifier: Apache-2.0
/* Runs in children of the spawner, and forked_start() and forked_result() in it. capabilities(7).
 */
#include "worker/spawner/job/forked.h"

#include "common/cleanup.h"
#include "worker/confine.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED_OTHERWISE 255 /* with an error that is no exit status */

#ifdef __SANITIZE_ADDRESS__
#define FIRST_CLOSED 3 /* a sanitizer's report must reach the log */
#else
#define FIRST_CLOSED 0
#endif

static _Noreturn void be_child(const struct forked_kind *kind, struct forked *child)
{
	const char *step;
	int r;

	(void)prctl(PR_SET_NAME, kind->name);
	(void)umask(0);
	r = setup_run(kind->steps, kind->n_steps, child, &step);
	forked_exit(r == 0 ? kind->work(child) : r);
}

pid_t forked_start(const struct forked_kind *kind, struct forked *child)
{
	pid_t pid;

	child->spawner = getpid();
	pid = fork();
	if (pid == 0)
		be_child(kind, child);
	return pid < 0 ? -errno : pid;
}

int forked_die_with_spawner(void *context)
{
	const struct forked *forked = context;
	int r = confine_die_with_parent();

	return r == 0 && getppid() != forked->spawner ? -EPIPE : r;
}

/* Returns the lowest descriptor from @from on that is kept, or ~0U. */
static unsigned next_kept(const struct forked *forked, unsigned from)
{
	unsigned next = ~0U;

	for (size_t i = 0; i < forked->n_kept; i++)
		if (forked->kept[i] >= 0 && (unsigned)forked->kept[i] >= from &&
			(unsigned)forked->kept[i] < next)
			next = (unsigned)forked->kept[i];
	return next;
}

int forked_close_others(void *context)
{
	const struct forked *forked = context;
	unsigned from = FIRST_CLOSED, next;

	do {
		next = next_kept(forked, from);
		if (next > from && close_range(from, next - 1, 0) < 0)
			return -errno;
		from = next + 1;
	} while (next != ~0U);
	return 0;
}

int forked_leave_mounts(void *context)
{
	(void)context;
	return unshare(CLONE_NEWNS) < 0 ? -errno : 0;
}

int forked_keep_nothing(void *context)
{
	(void)context;
	return confine_keep_capabilities(NULL, 0);
}

int forked_take_idle_time(void *context)
{
	static const struct sched_param none;

	(void)context;
	(void)sched_setscheduler(0, SCHED_IDLE, &none);
	return 0;
}

int forked_become_owner(void *context)
{
	static const cap_value_t kept[] = {CAP_DAC_READ_SEARCH};
	const struct forked *forked = context;

	/*
	 * In user mode setgroups(2) is denied, and the ids are already ours. Without CAP_SETGID
	 * elsewhere, setresgid(2) fails as well.
	 */
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || (setgroups(0, NULL) < 0 && errno != EPERM) ||
		setresgid(forked->gid, forked->gid, forked->gid) < 0 ||
		setresuid(forked->uid, forked->uid, forked->uid) < 0)
		return -errno;
	return confine_keep_capabilities(kept, forked->reads_all ? ARRAY_SIZE(kept) : 0);
}

_Noreturn void forked_exit(int r)
{
	_exit(-r < FAILED_OTHERWISE ? -r : FAILED_OTHERWISE);
}

int forked_result(int status)
{
	return WIFEXITED(status) && WEXITSTATUS(status) != FAILED_OTHERWISE ? -WEXITSTATUS(status)
									    : -EIO;
}
