// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/process.h"
#include "tests/lib/unit.h"

#include <sys/ioctl.h>
#include <sys/pidfd.h>

static struct fake_process *processes;

static unsigned long inode(int fd)
{
	struct stat stat_buf;

	assert_int_equal(fstat(fd, &stat_buf), 0);
	return stat_buf.st_ino;
}

int fake_process_start(struct fake_process *process, int down, int up)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*process = (struct fake_process){
		.life = ends[1], .pidfd_inode = inode(ends[0]), .next = processes};
	processes = process;
	fcntl(down, F_SETFL, O_NONBLOCK);
	channel_init(&process->channel, down, up, CHANNEL_TAKES_FDS);
	return ends[0];
}

void fake_process_end(struct fake_process *process)
{
	if (process->life < 0)
		return;
	channel_done(&process->channel);
	close_fd(&process->life);
}

void fake_process_done(struct fake_process *process)
{
	struct fake_process **link = &processes;

	fake_process_end(process);
	while (*link && *link != process)
		link = &(*link)->next;
	if (*link)
		*link = process->next;
}

bool fake_process_hear(struct fake_process *process, struct channel_frame *ret)
{
	int r, bytes = 1;

	if (process->life < 0)
		return false;
	while ((r = channel_next(&process->channel, ret)) == 0)
		/* Most are asked in vain, which is to cost little. */
		if (ioctl(process->channel.in, FIONREAD, &bytes) < 0 || bytes == 0 ||
			channel_fill(&process->channel, WIRE_FRAME_MAX) != 1)
			return false;
	assert_int_equal(r, 1);
	return true;
}

void fake_process_say(
	struct fake_process *process, uint8_t type, uint64_t call, struct text payload)
{
	if (process->life < 0)
		return;
	assert_int_equal(channel_send(&process->channel, type, call, payload, NULL, 0), 0);
	assert_int_equal(channel_flush(&process->channel), 0);
}

/* Replaces glibc's function. cloisterd sends no signal but SIGKILL. */
int pidfd_send_signal(int pidfd, int signal, siginfo_t *info, unsigned flags)
{
	unsigned long wanted = inode(pidfd);
	struct fake_process *process = processes;

	assert_int_equal(signal, SIGKILL);
	assert_null(info);
	assert_int_equal(flags, 0);
	while (process && (process->pidfd_inode != wanted || process->life < 0))
		process = process->next;
	if (!process) {
		errno = ESRCH;
		return -1;
	}
	process->killed++;
	if (!process->held)
		fake_process_end(process);
	return 0;
}
