// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/helper_process.h"

#include "supervisor/base/log_relay.h"
#include "tests/lib/unit.h"

#include <sys/syscall.h>

#define NO_PROCESS 0x7ffffff0 /* more than the kernel gives to any */

struct fake_helper fake_helper;

/* helper_process.h */

int helper_process_start(struct helper_process *helper, const char *name, char *const argv[],
	const int *more, int n_more, int *ret_socket)
{
	int pair[2];

	(void)more;
	(void)n_more;
	assert_string_equal(name, argv[0]);
	if (fake_helper.error != 0)
		return fake_helper.error;
	fake_helper = (struct fake_helper){0};
	for (int i = 0; argv[i]; i++) {
		strcat(fake_helper.started, argv[i]);
		strcat(fake_helper.started, " ");
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(log_relay_new(&helper->log, &fake_helper.log), 0);
	helper->pid = NO_PROCESS;
	fake_helper.given = *ret_socket = pair[0];
	fake_helper.socket = pair[1];
	return 0;
}

void helper_process_end(struct helper_process *helper)
{
	if (helper->pid == NO_PROCESS) {
		fake_helper.ended++;
		close_fd(&fake_helper.log);
	}
	log_relay_free(helper->log);
	*helper = (struct helper_process){0};
}

/* Replaces the C library's. */
int kill(pid_t pid, int number)
{
	if (pid != NO_PROCESS)
		return (int)syscall(SYS_kill, pid, number);
	assert_int_equal(number, SIGKILL);
	fake_helper.killed++;
	return 0;
}
