/* links: cloister-spawner-core */
// SPDX-License-Identifier: Apache-2.0
/* Where processes wait that were killed and have not ended. */
#include "tests/lib/unit.h"
#include "worker/spawner/whereabouts.h"

#include <sys/pidfd.h>
#include <sys/prctl.h>

/* Its child waits in the state D, until the program that it has become, or it itself, ends. */
static _Noreturn void be_held(int ready)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (vfork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!write(ready, "", 1);
		for (;;)
			pause();
	}
	_exit(0);
}

TEST(test_a_process_below_that_does_not_end)
{
	char where[LIMIT_WHEREABOUTS_BYTES], wchan[64] = "", byte;
	int ready[2], pidfd, found = 0;
	pid_t parent;

	assert_int_equal(pipe(ready), 0);
	parent = fork();
	if (parent == 0) {
		prctl(PR_SET_NAME, "x) R (");
		if (fork() == 0)
			be_held(ready[1]);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	pidfd = pidfd_open(parent, 0);
	assert_true(pidfd >= 0);
	/* It tells that it is ready a moment before its parent sleeps. */
	do
		whereabouts_find(&pidfd, 1, where, sizeof(where));
	while (!strstr(where, "in state D"));
	assert_true(sscanf(where, "process %d in state D waits in %63s", &found, wchan) >= 1);
	assert_int_not_equal(found, parent);
	assert_true(found > 0);
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	whereabouts_find(&pidfd, 1, where, sizeof(where));
	assert_string_equal(where, "no process of it is left but ended ones");
	close(pidfd);
	close(ready[0]);
	close(ready[1]);
}
