/* links: cloister-supervisor */
/* fakes: process id_range clock */
// SPDX-License-Identifier: Apache-2.0
/* cloisterd's end of the socket to cloister-spawner. The test plays the spawner: it sends frames
 * that are torn, wrong or late, is silent, and dies. */
#include "supervisor/cell/spawner_link.h"

#include "tests/unit/fakes/process.h"

#include "tests/lib/spawner_link_fixture.h"
#include "tests/lib/unit.h"

static struct text looked_up(void)
{
	static const struct spawner_looked_up where = {
		.may_enter = true, .n_parents = 2, .parents = {{1, 2}, {3, 4}}};
	static uint8_t payload[8192];
	struct wire_writer writer = wire_writer(payload, sizeof(payload));

	spawner_looked_up_put(&writer, &where);
	return (struct text){(char *)payload, writer.len};
}

FIXTURE(set_up, tear_down)

/* The spawner answers each request with each answer, right or wrong. */
TEST_WITH(test_answers, NULL, NULL)
{
	enum payload { NONE, FAILURE, WHERE, GARBAGE };
	enum { PORTS = SPAWNER_OPENED_SOCKETS + CELL_SOCKET_PORTS };
	static const struct {
		uint8_t asked, said, payload; /* enum payload */
		unsigned n_fds;
		enum outcome outcome;
		int error;
		bool fds[SPAWNER_OPENED_MOST]; /* which ones cloisterd gets */
		uint32_t proxy_port;
	} rows[] = {
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, 2, ANSWERED, 0, {true, true}, 0},
		{SPAWNER_OPEN, SPAWNER_OPEN_FAILED, FAILURE, 0, ANSWERED, -EIO, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, 1, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, 4, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_ASSIGNED, NONE, 0, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_FILES_OPENED, NONE, 1, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_LOOKED_UP, WHERE, 1, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_OPEN_FAILED, GARBAGE, 0, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_OPEN_FAILED, FAILURE, 1, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, SPAWNER_READY, NONE, 0, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN, 255, NONE, 0, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN_FILES, SPAWNER_FILES_OPENED, NONE, 1, ANSWERED, 0, {false, true}, 0},
		{SPAWNER_OPEN_FILES, SPAWNER_OPEN_FAILED, FAILURE, 0, ANSWERED, -EIO,
			{false, false}, 0},
		{SPAWNER_OPEN_FILES, SPAWNER_OPENED, NONE, 2, LOST, 0, {false, false}, 0},
		{SPAWNER_OPEN_FILES, SPAWNER_FILES_OPENED, NONE, 0, LOST, 0, {false, false}, 0},
		{SPAWNER_PREPARE, SPAWNER_OPENED, NONE, 2, ANSWERED, 0, {true, true}, 0},
		{SPAWNER_PREPARE, SPAWNER_OPEN_FAILED, FAILURE, 0, ANSWERED, -EIO, {false, false},
			0},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, 0, ANSWERED, 0, {false, false}, 0},
		{SPAWNER_ASSIGN, SPAWNER_OPEN_FAILED, FAILURE, 0, ANSWERED, -EIO, {false, false},
			0},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, 2, LOST, 0, {false, false}, 0},
		{SPAWNER_ASSIGN, SPAWNER_OPENED, NONE, 2, LOST, 0, {false, false}, 0},
		/* Every cell has the socket for ports, if the kernel gives one. */
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, 3, ANSWERED, 0, {true, true, [PORTS] = true},
			0},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, 1, ANSWERED, 0, {[PORTS] = true}, 0},
		{SPAWNER_PREPARE, SPAWNER_OPENED, NONE, 3, LOST, 0, {false}, 0},
		{SPAWNER_OPEN_FILES, SPAWNER_FILES_OPENED, NONE, 2, LOST, 0, {false}, 0},
		/*
		 * The sockets for cloister-egress come when they were asked for, all of them but
		 * perhaps the last, and only then.
		 */
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, SPAWNER_OPENED_MOST, ANSWERED, 0,
			{true, true, true, true, true, true, true, true, true}, 3129},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, SPAWNER_OPENED_MOST - 1, ANSWERED, 0,
			{true, true, true, true, true, true, true, [PORTS] = true}, 3129},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, SPAWNER_OPENED_MOST - 2, ANSWERED, 0,
			{true, true, true, true, true, true, true}, 3129},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, SPAWNER_OPENED_MOST - 3, LOST, 0, {false},
			3129},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, SPAWNER_OPENED_MOST, LOST, 0, {false}, 0},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, 2, LOST, 0, {false, false}, 3129},
		{SPAWNER_OPEN, SPAWNER_OPENED, NONE, 3, LOST, 0, {false, false}, 3129},
		{SPAWNER_PREPARE, SPAWNER_OPENED, NONE, 2, ANSWERED, 0, {true, true}, 3129},
		{SPAWNER_PREPARE, SPAWNER_OPENED, NONE, SPAWNER_OPENED_MOST, LOST, 0, {false},
			3129},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, CELL_SOCKETS, ANSWERED, 0,
			{false, false, true, true, true, true, true, true, true}, 3129},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, CELL_SOCKETS_LEAST, ANSWERED, 0,
			{false, false, true, true, true, true, true}, 3129},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, CELL_SOCKETS_LEAST - 1, LOST, 0, {false},
			3129},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, 0, LOST, 0, {false, false}, 3129},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, 1, LOST, 0, {false, false}, 3129},
		{SPAWNER_ASSIGN, SPAWNER_ASSIGNED, NONE, CELL_SOCKETS, LOST, 0, {false}, 0},
		{SPAWNER_OPEN_FILES, SPAWNER_FILES_OPENED, NONE, 1, ANSWERED, 0, {false, true},
			3129},
		{SPAWNER_OPEN_FILES, SPAWNER_FILES_OPENED, NONE, 2, LOST, 0, {false, false}, 3129},
		{SPAWNER_LOOK_UP, SPAWNER_LOOKED_UP, WHERE, 1, ANSWERED, 0, {false, false}, 0},
		{SPAWNER_LOOK_UP, SPAWNER_OPEN_FAILED, FAILURE, 0, ANSWERED, -EIO, {false, false},
			0},
		{SPAWNER_LOOK_UP, SPAWNER_LOOKED_UP, WHERE, 0, LOST, 0, {false, false}, 0},
		{SPAWNER_LOOK_UP, SPAWNER_OPENED, NONE, 2, LOST, 0, {false, false}, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct text payloads[] = {[NONE] = nothing,
			[FAILURE] = failure("mount", EIO),
			[WHERE] = looked_up(),
			[GARBAGE] = TEXT_LITERAL("x")};
		unsigned n_fds[] = {[SPAWNER_OPEN] = SPAWNER_OPEN_FDS,
			[SPAWNER_OPEN_FILES] = SPAWNER_OPEN_FILES_FDS,
			[SPAWNER_PREPARE] = SPAWNER_PREPARE_FDS,
			[SPAWNER_ASSIGN] = SPAWNER_ASSIGN_FDS,
			[SPAWNER_LOOK_UP] = 1};
		uint64_t number;

		set_up(state);
		proxy_port = rows[i].proxy_port;
		assert_int_equal(ask(rows[i].asked, &number), 0);
		run();
		hears(rows[i].asked, number, n_fds[rows[i].asked]);
		assert_int_equal(told.answers, 0);
		says(rows[i].said, number, payloads[rows[i].payload], rows[i].n_fds);
		if (losses != (rows[i].outcome == LOST) || told.answers != 1)
			fail_msg("row %zu: lost %u, answers %u", i, losses, told.answers);
		if (rows[i].outcome == LOST) {
			assert_int_equal(told.error, -ECONNRESET);
		} else {
			assert_int_equal(told.error, rows[i].error);
			assert_string_equal(told.step,
				rows[i].error && rows[i].asked != SPAWNER_LOOK_UP ? "mount" : "");
		}
		for (size_t j = 0; j < SPAWNER_OPENED_MOST; j++)
			assert_int_equal(told.fds[j] >= 0, rows[i].fds[j]);
		assert_int_equal(told.fd >= 0,
			rows[i].outcome == ANSWERED && rows[i].said == SPAWNER_LOOKED_UP);
		assert_int_equal(told.n_parents, told.fd >= 0 ? 2 : 0);
		proxy_port = 0;
		tear_down(state);
	}
}

/* cloisterd decodes the payload of a looked-up directory, and ends a spawner that sends garbage. */
TEST(test_a_directory_that_is_garbage)
{
	uint64_t number;

	assert_int_equal(ask(SPAWNER_LOOK_UP, &number), 0);
	run();
	says(SPAWNER_LOOKED_UP, number, TEXT_LITERAL("x"), 1);
	assert_int_equal(losses, 1);
}

/* Each answer reaches its own request, in whatever order answers come. */
TEST(test_answers_out_of_order)
{
	uint64_t first, second, third;

	assert_int_equal(ask(SPAWNER_OPEN, &first), 0);
	assert_int_equal(ask(SPAWNER_OPEN, &second), 0);
	assert_int_equal(ask(SPAWNER_LOOK_UP, &third), 0);
	assert_true(first != second && second != third);
	run();
	says(SPAWNER_OPEN_FAILED, second, failure("two", EIO), 0);
	assert_string_equal(told.step, "two");
	says(SPAWNER_OPEN_FAILED, third, failure("three", ENOENT), 0);
	assert_int_equal(told.error, -ENOENT);
	says(SPAWNER_OPEN_FAILED, first, failure("one", EIO), 0);
	assert_string_equal(told.step, "one");
	assert_int_equal(told.answers, 3);
	/* cloisterd drops a second answer, and does not take it for a fault. */
	says(SPAWNER_OPEN_FAILED, first, failure("again", EIO), 0);
	assert_int_equal(told.answers, 3);
	assert_int_equal(losses, 0);
}

/* cloisterd kills the processes of a cell that it has forgotten; it only closes a directory. */
TEST(test_forgotten_answers)
{
	struct fake_process worker, files;
	int pipes[2], fds[SPAWNER_OPENED_FDS];
	uint64_t number;

	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	run();
	spawner_link_forget(link_, number);
	spawner_link_forget(link_, number);
	fds[0] = fake_process_start(&worker, -1, -1);
	fds[1] = fake_process_start(&files, -1, -1);
	assert_int_equal(
		channel_send(&spawner.channel, SPAWNER_OPENED, number, nothing, fds, 2), 0);
	assert_int_equal(channel_flush(&spawner.channel), 0);
	run();
	assert_int_equal(worker.killed, 1);
	assert_int_equal(files.killed, 1);
	fake_process_done(&worker);
	fake_process_done(&files);
	assert_int_equal(ask(SPAWNER_LOOK_UP, &number), 0);
	run();
	spawner_link_forget(link_, number);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(channel_send(&spawner.channel, SPAWNER_LOOKED_UP, number, looked_up(),
				 &pipes[1], 1),
		0);
	assert_int_equal(channel_flush(&spawner.channel), 0);
	run();
	assert_int_equal(read(pipes[0], &(char){0}, 1), 0);
	close(pipes[0]);
	assert_int_equal(told.answers, 0);
	assert_int_equal(losses, 0);
}

static struct spawner_worked heard;

static void on_worked(void *context, const struct spawner_worked *message)
{
	assert_ptr_equal(context, &heard);
	heard = *message;
	heard.tenant = heard.path = (struct text){NULL, 0};
}

/* What the spawner tells of its own work answers nothing. */
TEST_WITH(test_its_own_work, NULL, NULL)
{
	static const struct spawner_worked done = {
		SPAWNER_FOLD, TEXT_LITERAL("t"), TEXT_LITERAL(".layers-w/5-3-2"), EIO, 70, 0};
	static const struct {
		uint64_t number;
		uint8_t n_fds;
		bool whole, lost;
	} rows[] = {
		{0, 0, true, false},
		{1, 0, true, true}, /* no request is meant */
		{0, 1, true, true},
		{0, 0, false, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint8_t payload[256];
		struct wire_writer writer = wire_writer(payload, sizeof(payload));
		uint64_t number;

		set_up(state);
		heard = (struct spawner_worked){0};
		spawner_worked_put(&writer, &done);
		says(SPAWNER_WORKED, 0, (struct text){(char *)payload, writer.len}, 0);
		assert_int_equal(losses, 0); /* nobody hears of it */
		spawner_link_hear(link_, on_worked, &heard);
		assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
		run();
		says(SPAWNER_WORKED, rows[i].number,
			(struct text){(char *)payload, writer.len - !rows[i].whole}, rows[i].n_fds);
		assert_int_equal(losses, rows[i].lost);
		assert_int_equal(told.answers, rows[i].lost);
		assert_int_equal(heard.us, rows[i].lost ? 0 : 70);
		assert_int_equal(heard.error, rows[i].lost ? 0 : EIO);
		tear_down(state);
	}
}

/* cloisterd drops a failure of a request that it has forgotten. A frame that breaks the protocol
 * ends the spawner, as it does for any other request. */
TEST_WITH(test_other_answers_about_what_is_forgotten, NULL, NULL)
{
	static const struct {
		uint8_t said;
		bool fails; /* with the payload of a failure */
		uint8_t n_fds;
		bool lost;
	} rows[] = {
		{SPAWNER_OPEN_FAILED, true, 0, false},
		{SPAWNER_ASSIGNED, false, 0, false}, /* the kind of the request is forgotten too */
		{SPAWNER_OPEN_FAILED, false, 0, true},
		{SPAWNER_OPEN_FAILED, true, 1, true},
		{SPAWNER_ASSIGNED, false, CELL_SOCKETS, false}, /* so may have been its sockets */
		{SPAWNER_ASSIGNED, false, 1, false},
		{SPAWNER_ASSIGNED, false, 2, true},
		{SPAWNER_READY, false, 0, true},
		{255, false, 0, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t number, other;

		set_up(state);
		assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
		assert_int_equal(ask(SPAWNER_OPEN, &other), 0);
		run();
		spawner_link_forget(link_, number);
		says(rows[i].said, number, rows[i].fails ? failure("mount", EIO) : nothing,
			rows[i].n_fds);
		if (losses != rows[i].lost || told.answers != rows[i].lost)
			fail_msg("row %zu: lost %u, answers %u", i, losses, told.answers);
		/* The request that is not forgotten is answered. */
		assert_int_equal(told.error, rows[i].lost ? -ECONNRESET : 0);
		tear_down(state);
	}
}

TEST(test_torn_frames)
{
	char bytes[256];
	uint64_t number;
	size_t len;

	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	run();
	len = put_frame(bytes, SPAWNER_OPEN_FAILED, number, failure("mount", EIO));
	for (size_t i = 0; i < len; i++) {
		assert_int_equal(told.answers, 0);
		assert_int_equal(write(spawner.channel.out, bytes + i, 1), 1);
		run();
	}
	assert_int_equal(told.answers, 1);
	assert_int_equal(losses, 0);
}

TEST(test_bytes_that_are_no_frame)
{
	static const char bytes[WIRE_HEADER_SIZE] = "GET / HTTP/1.1\r\n";
	uint64_t number;

	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	run();
	assert_int_equal(write(spawner.channel.out, bytes, sizeof(bytes)), sizeof(bytes));
	run();
	assert_int_equal(losses, 1);
	assert_int_equal(told.error, -ECONNRESET);
}

/* cloisterd reports the spawner's death once, answers every request that waits, and sends no more.
 */
TEST(test_the_spawners_death)
{
	uint64_t number;

	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	assert_int_equal(ask(SPAWNER_LOOK_UP, &number), 0);
	run();
	channel_done(&spawner.channel);
	kill(spawner.pid, SIGKILL);
	waitpid(spawner.pid, NULL, 0);
	run();
	assert_int_equal(losses, 1);
	assert_int_equal(told.answers, 2);
	assert_int_equal(ask(SPAWNER_OPEN, &number), -ECONNRESET);
	assert_int_equal(ask(SPAWNER_LOOK_UP, &number), -ECONNRESET);
	spawner_link_reload(link_);
	pass(2 * LIMIT_SPAWNER_SILENT_MS);
	assert_int_equal(losses, 1);
	assert_int_equal(told.answers, 2);
}

/* cloisterd kills a spawner that does not answer a request for LIMIT_SPAWNER_SILENT_MS. */
TEST(test_a_silent_spawner)
{
	uint64_t number;
	int status;

	/* Without a request it may be silent. */
	pass(2 * LIMIT_SPAWNER_SILENT_MS);
	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	/* An answer begins the time anew. */
	for (int ms = 0; ms < LIMIT_SPAWNER_SILENT_MS - 1000; ms += 1000)
		pass(1000);
	says(SPAWNER_OPEN_FAILED, number, failure("mount", EIO), 0);
	/* A pause of cloisterd itself counts as one step of its timer. */
	pass(10 * LIMIT_SPAWNER_SILENT_MS);
	for (int ms = 1000; ms < LIMIT_SPAWNER_SILENT_MS - 1000; ms += 1000)
		pass(1000);
	assert_int_equal(losses, 0);
	pass(1000);
	assert_int_equal(losses, 1);
	assert_int_equal(told.answers, 2);
	assert_int_equal(waitpid(spawner.pid, &status, 0), spawner.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/*
 * cloisterd waits for a spawner that would run and gets no CPU time, as all time of the fake clock
 * is to one that computes, and kills it when it hangs after that.
 */
TEST(test_a_starved_spawner)
{
	uint64_t number;

	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	kill(spawner.pid, SIGUSR1);
	await_state('R');
	for (int ms = 0; ms < 3 * LIMIT_SPAWNER_SILENT_MS; ms += 1000)
		pass(1000);
	assert_int_equal(losses, 0);
	assert_int_equal(told.answers, 0);
	kill(spawner.pid, SIGSTOP);
	await_state('T');
	for (int ms = 0; ms < LIMIT_SPAWNER_SILENT_MS; ms += 1000)
		pass(1000);
	assert_int_equal(losses, 1);
	assert_int_equal(told.answers, 1);
}

/* cloisterd waits for the answer to a request that it has forgotten: the spawner may hang in it. */
TEST(test_silence_about_what_is_forgotten)
{
	uint64_t number;

	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	run();
	spawner_link_forget(link_, number);
	for (int ms = 0; ms < LIMIT_SPAWNER_SILENT_MS; ms += 1000)
		pass(1000);
	assert_int_equal(losses, 1);
	assert_int_equal(told.answers, 0);
}

/* cloisterd tells the spawner to reload before it sends the next request. */
TEST(test_a_reload)
{
	uint64_t number;

	spawner_link_reload(link_);
	assert_int_equal(ask(SPAWNER_ASSIGN, &number), 0);
	run();
	hears(SPAWNER_RELOAD, 0, 0);
	hears(SPAWNER_ASSIGN, number, SPAWNER_ASSIGN_FDS);
}

/* cloisterd tells the spawner of a removed workspace before it sends the next request. */
TEST(test_a_removed_workspace)
{
	uint64_t number;

	spawner_link_removed(link_, "tenant", "name");
	/* a name longer than a configuration allows: it is not sent */
	spawner_link_removed(link_, "12345678901234567890123456789012345678901", "name");
	assert_int_equal(ask(SPAWNER_OPEN, &number), 0);
	run();
	hears(SPAWNER_REMOVED, 0, 0);
	hears(SPAWNER_OPEN, number, SPAWNER_OPEN_FDS);
}

/* What is told a spawner that does not read waits. It is sent in order when it reads again. */
TEST(test_a_spawner_that_does_not_read)
{
	for (uint64_t i = 0; i < 20000; i++)
		spawner_link_let_go(link_, i);
	run();
	for (uint64_t i = 0; i < 20000; i++) {
		hears(SPAWNER_LET_GO, i, 0);
		run();
	}
	assert_int_equal(losses, 0);
}
