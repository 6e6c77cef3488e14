/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A command's input is in order and told once, whatever is written before there is a command, at
 * once or later.
 */
#include "supervisor/call/command_input.h"

#include "supervisor/base/loop_turn.h"
#include "supervisor/base/shared_fd.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/usage.h"
#include "tests/lib/unit.h"

#include <event2/event.h>
#include <limits.h>
#include <sched.h>

struct fixture {
	struct service service;
	struct tenant_usage usage;
	struct command_input *input;
	int read_end;
	char told[256]; /* labels, each followed by ! if the input was closed */
	size_t moved;
};

static void on_taken(void *context, const char *label, size_t taken, bool closed)
{
	struct fixture *f = context;
	size_t len = strlen(f->told);

	(void)taken;
	snprintf(f->told + len, sizeof(f->told) - len, "%s%s", label, closed ? "!" : "");
}

static void on_moved(void *context)
{
	((struct fixture *)context)->moved++;
}

static int set_up(void **state)
{
	static struct fixture f;
	struct command_input_owner owner = {on_taken, on_moved, NULL, &f};

	signal(SIGPIPE, SIG_IGN);
	f = (struct fixture){.service = {.base = event_base_new()}, .read_end = -1};
	if (!f.service.base || event_base_priority_init(f.service.base, LOOP_PRIORITIES) < 0 ||
		loop_turn_start(f.service.base) < 0 || shared_fds_start(f.service.base) < 0)
		return -1;
	f.usage.share.threads = shared_fd_threads_new();
	*state = &f;
	return command_input_new(&f.service, &f.usage, &owner, &f.input);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	command_input_free(f->input);
	shared_fds_stop();
	shared_fd_threads_free(f->usage.share.threads);
	close_fd(&f->read_end);
	loop_turn_stop();
	event_base_free(f->service.base);
	return 0;
}

FIXTURE(set_up, tear_down)

static void begin(struct fixture *f)
{
	assert_int_equal(
		command_input_begin(f->input, NULL, (struct text){NULL, 0}, false, &f->read_end),
		0);
	assert_int_equal(fcntl(f->read_end, F_SETFL, O_NONBLOCK), 0);
}

static void add(struct fixture *f, const char *data, size_t len, bool eof, const char *name)
{
	char *label = strdup(name);

	assert_int_equal(command_input_add(f->input, (struct text){data, len}, eof, &label), 0);
	assert_null(label);
}

/* Reads what is in the pipe, at most one buffer. Returns the bytes, or -1. */
static ssize_t take(struct fixture *f, char *buffer, size_t size)
{
	return read(f->read_end, buffer, size);
}

static void until_told(struct fixture *f, const char *labels)
{
	while (strcmp(f->told, labels) != 0)
		event_base_loop(f->service.base, EVLOOP_ONCE);
}

/* Waits until @len bytes more are in the pipe. The end counts as one. */
static ssize_t take_all(struct fixture *f, char *buffer, size_t len)
{
	size_t taken = 0;

	while (taken < len) {
		ssize_t n = take(f, buffer + taken, len - taken);

		if (n == 0)
			break;
		if (n > 0)
			taken += (size_t)n;
		else
			event_base_loop(f->service.base, EVLOOP_ONCE);
	}
	return (ssize_t)taken;
}

TEST(test_a_key_is_there_before_its_answer)
{
	struct fixture *f = *state;
	char got[8];

	begin(f);
	add(f, "k", 1, false, "1");
	until_told(f, "1");
	assert_int_equal(f->moved, 1);
	assert_int_equal(take(f, got, sizeof(got)), 1);
	assert_int_equal(command_input_pending(f->input), 0);
	add(f, "", 0, true, "2");
	assert_string_equal(f->told, "12");
	/* A thread closes the pipe. */
	while (take(f, got, sizeof(got)) != 0)
		sched_yield();
}

TEST(test_before_the_beginning_it_waits)
{
	struct fixture *f = *state;
	char got[8];

	add(f, "a", 1, false, "1");
	assert_string_equal(f->told, "");
	begin(f);
	/* Not past what waits. */
	add(f, "b", 1, false, "2");
	assert_string_equal(f->told, "");
	until_told(f, "12");
	assert_int_equal(take_all(f, got, 2), 2);
	assert_memory_equal(got, "ab", 2);
}

/* What comes with the call is in the pipe before anybody has it, as much as finds room. */
static void give_up(evutil_socket_t fd, short what, void *context)
{
	(void)fd;
	(void)what;
	event_base_loopbreak(context);
}

/* A part without bytes ends, and then the loop has nothing to do. */
TEST(test_an_empty_part_before_the_beginning)
{
	static const struct timeval soon = {.tv_usec = 50000};
	struct fixture *f = *state;

	add(f, "", 0, false, "1");
	begin(f);
	assert_int_equal(
		event_base_once(f->service.base, -1, EV_TIMEOUT, give_up, f->service.base, &soon),
		0);
	/* It comes back when nothing is ready any more. */
	event_base_loop(f->service.base, EVLOOP_NONBLOCK);
	assert_false(event_base_got_break(f->service.base));
	until_told(f, "1");
}

TEST(test_what_comes_first_is_there)
{
	static char much[COMMAND_IO_CHUNK + 5000], got[sizeof(much)];
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(much); i++)
		much[i] = (char)(i % 251);
	assert_int_equal(command_input_begin(f->input, NULL, (struct text){much, sizeof(much)},
				 true, &f->read_end),
		0);
	assert_int_equal(fcntl(f->read_end, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(take(f, got, sizeof(got)), COMMAND_IO_CHUNK);
	assert_int_equal(take_all(f, got + COMMAND_IO_CHUNK, 5000), 5000);
	assert_memory_equal(got, much, sizeof(much));
}

/* All of it: nothing is left to a thread. */
TEST(test_little_that_comes_first_is_all)
{
	struct fixture *f = *state;
	char got[8];

	assert_int_equal(
		command_input_begin(f->input, NULL, TEXT_LITERAL("all"), true, &f->read_end), 0);
	assert_int_equal(take(f, got, sizeof(got)), 3);
	assert_int_equal(take(f, got, sizeof(got)), 0);
}

/* What finds no room waits, and what comes later waits behind it. */
TEST(test_a_full_pipe)
{
	static char piece[PIPE_BUF], got[2 * COMMAND_IO_CHUNK];
	struct fixture *f = *state;
	size_t written = 0;

	begin(f);
	for (; written < sizeof(got); written += sizeof(piece)) {
		memset(piece, 'a' + (int)(written / sizeof(piece)) % 26, sizeof(piece));
		add(f, piece, sizeof(piece), false, "");
	}
	add(f, "end", 3, true, "e");
	assert_string_equal(f->told, "");
	assert_int_equal(take_all(f, got, sizeof(got)), sizeof(got));
	for (size_t i = 0; i < written; i++)
		assert_int_equal(got[i], 'a' + (int)(i / sizeof(piece)) % 26);
	assert_int_equal(take_all(f, got, 3), 3);
	assert_memory_equal(got, "end", 3);
	until_told(f, "e");
}

TEST(test_a_closed_input_is_found)
{
	struct fixture *f = *state;

	begin(f);
	close_fd(&f->read_end);
	add(f, "k", 1, false, "1");
	until_told(f, "1!");
	assert_false(command_input_is_read(f->input));
	add(f, "k", 1, false, "2");
	assert_string_equal(f->told, "1!2!");
}

/* What was written before is in the pipe: nothing else would find it. */
TEST(test_an_input_that_is_closed_later_is_found_when_asked)
{
	struct fixture *f = *state;

	begin(f);
	add(f, "k", 1, false, "1");
	until_told(f, "1");
	assert_true(command_input_is_read(f->input));
	close_fd(&f->read_end);
	assert_false(command_input_is_read(f->input));
}
