// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in the worker. Other commands of the workspace have the same id and can open the terminal
 * too; they can do nothing with it that is not the workspace's own harm.
 */
#include "worker/commands/command_terminal.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

/* Characters may have several bytes: the line discipline is to erase them whole. */
static int expect_utf8(int slave)
{
	struct termios modes;

	if (tcgetattr(slave, &modes) < 0)
		return -errno;
	modes.c_iflag |= IUTF8;
	return tcsetattr(slave, TCSANOW, &modes) < 0 ? -errno : 0;
}

int terminal_open(const struct command_terminal *size, struct terminal *ret)
{
	_cleanup_close_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	_cleanup_close_ int slave = -1, signals = -1;
	int unlocked = 0, r;
	sigset_t set;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return -errno;
	/* By the master, not by a path that a command could have some influence on. */
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	r = expect_utf8(slave);
	if (r < 0)
		return r;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		return -errno;
	*ret = (struct terminal){TAKE_FD(master), TAKE_FD(slave), TAKE_FD(signals)};
	terminal_resize(ret, size);
	return 0;
}

int terminal_relay(const struct terminal *terminal, int in, int out, struct relay_ends *ret)
{
	if (fcntl(in, F_SETFL, O_NONBLOCK) < 0 || fcntl(out, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	*ret = (struct relay_ends){terminal->master, in, out, terminal->signals};
	return 0;
}

void terminal_resize(const struct terminal *terminal, const struct command_terminal *size)
{
	struct winsize cells = {
		.ws_row = (unsigned short)size->rows, .ws_col = (unsigned short)size->cols};

	(void)ioctl(terminal->master, TIOCSWINSZ, &cells);
}

void terminal_close(struct terminal *terminal)
{
	close_fd(&terminal->slave);
	close_fd(&terminal->master);
	close_fd(&terminal->signals);
}
