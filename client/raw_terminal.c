// SPDX-License-Identifier: Apache-2.0
/* Runs in the client. termios(3). */
#include "client/raw_terminal.h"

#include "common/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static struct termios before; /* its modes before it was raw */
static struct termios raw;
static volatile sig_atomic_t is_raw;

/*
 * Ends reports of the mouse, of focus and of pasted text, and the other screen; shows the cursor;
 * ends attributes and keys for applications. Control sequences of xterm, which other terminals
 * ignore if they do not know them.
 */
static const char reset_sequences[] = "\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?1004l"
				      "\033[?2004l\033[?1047l\033[?25h\033[?1l\033>\033[0m\r\n";

bool raw_terminal_is_there(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

struct winsize raw_terminal_size(void)
{
	struct winsize size = {0};

	(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	if (size.ws_row == 0)
		size.ws_row = 24;
	if (size.ws_col == 0)
		size.ws_col = 80;
	return size;
}

/* An error of ours: the terminal is given back before the default action. signal-safety(7) */
static void on_crash(int number)
{
	raw_terminal_leave(true);
	raise(number);
}

static void watch_crashes(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	struct sigaction action = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};

	for (size_t i = 0; i < ARRAY_SIZE(crashes); i++)
		sigaction(crashes[i], &action, NULL);
}

int raw_terminal_enter(void)
{
	if (is_raw)
		return 0;
	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return -errno;
	raw = before;
	cfmakeraw(&raw);
	watch_crashes();
	is_raw = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		is_raw = 0;
		return -errno;
	}
	return 0;
}

void raw_terminal_enter_again(void)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void raw_terminal_leave(bool reset)
{
	ssize_t r = 0;

	if (!is_raw)
		return;
	is_raw = 0;
	/* Both fail if the terminal is gone, and nothing is left to reset then. */
	if (reset)
		r = write(STDOUT_FILENO, reset_sequences, strlen(reset_sequences));
	(void)r;
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}
