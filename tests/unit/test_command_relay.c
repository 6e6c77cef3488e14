// SPDX-License-Identifier: Apache-2.0
/* links: cloister-worker-core */
/* What an init passes on between a terminal and two pipes. pty(7). */
#include "tests/lib/unit.h"
#include "worker/commands/command_terminal.h"

#include <termios.h>

struct fixture {
	struct terminal terminal;
	int in[2], out[2];
	struct relay_ends ends;
};

static int set_up(void **state)
{
	static const struct command_terminal size = {24, 80};
	struct fixture *f = calloc(1, sizeof(*f));
	struct termios modes;

	assert_non_null(f);
	assert_int_equal(terminal_open(&size, &f->terminal), 0);
	assert_int_equal(tcgetattr(f->terminal.slave, &modes), 0);
	assert_true(modes.c_iflag & IUTF8);
	cfmakeraw(&modes);
	assert_int_equal(tcsetattr(f->terminal.slave, TCSANOW, &modes), 0);
	assert_int_equal(pipe2(f->in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(f->out, O_CLOEXEC), 0);
	assert_int_equal(terminal_relay(&f->terminal, f->in[0], f->out[1], &f->ends), 0);
	assert_int_equal(fcntl(f->out[0], F_SETFL, O_NONBLOCK), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	terminal_close(&f->terminal);
	for (size_t i = 0; i < 2; i++) {
		close_fd(&f->in[i]);
		close_fd(&f->out[i]);
	}
	free(f);
	return 0;
}

FIXTURE(set_up, tear_down)

static size_t fill(int fd)
{
	static const char many[4096];
	size_t filled = 0;
	ssize_t n;

	while ((n = write(fd, many, sizeof(many))) > 0)
		filled += (size_t)n;
	return filled;
}

TEST(test_the_rest_is_passed_on)
{
	struct fixture *f = *state;
	char bytes[16] = "";

	assert_int_equal(write(f->terminal.slave, "last words", 10), 10);
	relay_rest(&f->ends, 0);
	assert_int_equal(read(f->out[0], bytes, sizeof(bytes)), 10);
	assert_string_equal(bytes, "last words");
	relay_rest(&f->ends, 0);
	assert_true(read(f->out[0], bytes, sizeof(bytes)) < 0 && errno == EAGAIN);
}

/* It is not taken from the terminal while the pipe has no room. */
TEST(test_no_byte_is_taken_that_has_no_room)
{
	struct fixture *f = *state;
	char bytes[4096] = "";
	size_t filled = fill(f->out[1]);

	assert_int_equal(write(f->terminal.slave, "last words", 10), 10);
	relay_rest(&f->ends, 0);
	while (filled > 0)
		filled -= (size_t)read(f->out[0], bytes, sizeof(bytes));
	assert_true(read(f->out[0], bytes, sizeof(bytes)) < 0 && errno == EAGAIN);
	relay_rest(&f->ends, 0);
	assert_int_equal(read(f->out[0], bytes, sizeof(bytes)), 10);
	assert_memory_equal(bytes, "last words", 10);
}

/* Reads @len bytes, which come. */
static void expect(int fd, const char *wanted, size_t len)
{
	char bytes[64];
	size_t have = 0;

	while (have < len) {
		ssize_t n = read(fd, bytes + have, len - have);

		assert_true(n > 0 || errno == EAGAIN);
		have += n > 0 ? (size_t)n : 0;
		if (n < 0)
			usleep(1000);
	}
	assert_memory_equal(bytes, wanted, len);
}

static pid_t relay_in_child(struct fixture *f)
{
	struct relay relay = {.ends = f->ends};
	sigset_t set;
	pid_t pid;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* an init has it blocked */
	pid = fork();
	if (pid > 0)
		return pid;
	close(f->in[1]);
	close(f->out[0]);
	relay_until_signal(&relay);
	/* It has left the signal to its caller. */
	_exit(sigwait(&set, &number) == 0 && number == SIGTERM ? 7 : 1);
}

TEST(test_both_ways_until_a_signal)
{
	struct fixture *f = *state;
	pid_t pid = relay_in_child(f);
	int status;

	assert_true(pid > 0);
	assert_int_equal(write(f->in[1], "typed", 5), 5);
	expect(f->terminal.slave, "typed", 5);
	assert_int_equal(write(f->terminal.slave, "shown", 5), 5);
	expect(f->out[0], "shown", 5);
	/* The end of the input pipe is no end of the terminal. */
	close_fd(&f->in[1]);
	assert_int_equal(write(f->terminal.slave, "later", 5), 5);
	expect(f->out[0], "later", 5);
	/* Nor is one that cloisterd does not read any more, which is no reason to spin either. */
	close_fd(&f->out[0]);
	assert_int_equal(write(f->terminal.slave, "unread", 6), 6);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
}

/* A command that reads nothing holds up its own input only. */
TEST(test_input_that_is_not_read)
{
	struct fixture *f = *state;
	pid_t pid;
	int status;

	fcntl(f->in[1], F_SETFL, O_NONBLOCK);
	pid = relay_in_child(f);
	assert_true(pid > 0);
	while (fill(f->in[1]) > 0)
		usleep(20000);
	assert_int_equal(write(f->terminal.slave, "shown", 5), 5);
	expect(f->out[0], "shown", 5);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 7);
}
