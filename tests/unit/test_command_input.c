/* links: cloister-supervisor */
/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A command's input: little of it is in the pipe before the client can be answered, and whatever is
 * written at once or later, it is in order and told once.
 */
#include "supervisor/call/command_input.h"

#include "common/cleanup.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/call/command_io.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <unistd.h>

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
	struct command_input_owner owner = {on_taken, on_moved, &f};

	signal(SIGPIPE, SIG_IGN);
	f = (struct fixture){.service = {.base = event_base_new()}, .read_end = -1};
	if (!f.service.base || event_base_priority_init(f.service.base, LOOP_PRIORITIES) < 0 ||
		loop_turn_start(f.service.base) < 0)
		return -1;
	*state = &f;
	return command_input_new(&f.service, &f.usage, &owner, &f.input);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	command_input_free(f->input);
	close_fd(&f->read_end);
	loop_turn_stop();
	event_base_free(f->service.base);
	return 0;
}

static void begin(struct fixture *f)
{
	assert_int_equal(
		command_input_begin(f->input, (struct text){NULL, 0}, false, &f->read_end), 0);
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

static void turn(struct fixture *f)
{
	event_base_loop(f->service.base, EVLOOP_NONBLOCK);
}

static void test_a_key_is_there_before_its_answer(void **state)
{
	struct fixture *f = *state;
	char got[8];

	begin(f);
	add(f, "k", 1, false, "1");
	assert_string_equal(f->told, "1");
	assert_int_equal(f->moved, 1);
	assert_int_equal(take(f, got, sizeof(got)), 1);
	assert_int_equal(command_input_pending(f->input), 0);
	add(f, "", 0, true, "2");
	assert_string_equal(f->told, "12");
	assert_int_equal(take(f, got, sizeof(got)), 0);
}

static void test_before_the_beginning_it_waits(void **state)
{
	struct fixture *f = *state;
	char got[8];

	add(f, "a", 1, false, "1");
	assert_string_equal(f->told, "");
	begin(f);
	/* Not past what waits. */
	add(f, "b", 1, false, "2");
	assert_string_equal(f->told, "");
	turn(f);
	assert_string_equal(f->told, "12");
	assert_int_equal(take(f, got, sizeof(got)), 2);
	assert_memory_equal(got, "ab", 2);
}

/* One slice of it is written at once. */
static void test_much_takes_its_turn(void **state)
{
	static char much[COMMAND_IO_CHUNK + 5000], got[sizeof(much)];
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(much); i++)
		much[i] = (char)(i % 251);
	begin(f);
	add(f, much, sizeof(much), false, "1");
	assert_int_equal(f->moved, 1);
	assert_int_equal(take(f, got, sizeof(got)), COMMAND_IO_CHUNK);
	assert_int_equal(take(f, got, sizeof(got)), -1);
	assert_string_equal(f->told, "");
	assert_int_equal(command_input_pending(f->input), sizeof(much));
	turn(f);
	assert_int_equal(take(f, got + COMMAND_IO_CHUNK, 5000), 5000);
	assert_memory_equal(got, much, sizeof(much));
	assert_string_equal(f->told, "1");
	assert_int_equal(command_input_pending(f->input), 0);
}

/* What finds no room waits, and what comes later waits behind it. */
static void test_a_full_pipe(void **state)
{
	static char piece[PIPE_BUF], got[1 << 20];
	struct fixture *f = *state;
	size_t written = 0, taken = 0;
	ssize_t n;

	begin(f);
	while (command_input_pending(f->input) == 0) {
		assert_true(written < sizeof(got) / 2);
		memset(piece, 'a' + (int)(written / sizeof(piece)) % 26, sizeof(piece));
		add(f, piece, sizeof(piece), false, "");
		written += sizeof(piece);
	}
	add(f, "end", 3, true, "e");
	assert_string_equal(f->told, "");
	while ((n = take(f, got + taken, sizeof(got) - taken)) != 0) {
		taken += n > 0 ? (size_t)n : 0;
		turn(f);
	}
	assert_int_equal(taken, written + 3);
	for (size_t i = 0; i < written; i++)
		assert_int_equal(got[i], 'a' + (int)(i / sizeof(piece)) % 26);
	assert_memory_equal(got + written, "end", 3);
	assert_string_equal(f->told, "e");
}

static void test_a_closed_input_is_found_at_once(void **state)
{
	struct fixture *f = *state;

	begin(f);
	close_fd(&f->read_end);
	add(f, "k", 1, false, "1");
	assert_string_equal(f->told, "1!");
	assert_true(command_input_is_closed(f->input));
	add(f, "k", 1, false, "2");
	assert_string_equal(f->told, "1!2!");
}

/* What was written before is in the pipe: nothing else would find it. */
static void test_an_input_that_is_closed_later_is_found_when_asked(void **state)
{
	struct fixture *f = *state;

	begin(f);
	add(f, "k", 1, false, "1");
	assert_string_equal(f->told, "1");
	assert_true(command_input_is_read(f->input));
	close_fd(&f->read_end);
	assert_false(command_input_is_read(f->input));
	assert_false(command_input_is_closed(f->input));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_a_key_is_there_before_its_answer),
		TEST(test_before_the_beginning_it_waits),
		TEST(test_much_takes_its_turn),
		TEST(test_a_full_pipe),
		TEST(test_a_closed_input_is_found_at_once),
		TEST(test_an_input_that_is_closed_later_is_found_when_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
