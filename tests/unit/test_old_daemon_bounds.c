/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer house */
// SPDX-License-Identifier: Apache-2.0
/* How long an old daemon waits for a new daemon that is late, silent or does not read, and
 * that no other one takes over meanwhile. */
#include "supervisor/daemon/old_daemon.h"

#include "supervisor/host/handover.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/house.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/spawner_link.h"
#include "tests/unit/fakes/workers.h"

#include <sys/un.h>

#define GIVEN_MS  60000
#define ASK_MS    5000
#define ENDING_MS 1000

FIXTURE(house_set_up, house_tear_down)

TEST(test_one_at_a_time)
{
	struct handover_message message;
	int second = -1;

	new_daemon_connects();
	assert_int_equal(handover_connect(house.state, &second), 0);
	house_run(0);
	assert_int_equal(handover_await(second, 0, &message), 0);
	close(second);
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
}

TEST(test_one_that_does_not_ask_holds_up_nobody)
{
	struct handover_message message;

	new_daemon_connects();
	house_run(ASK_MS - 1);
	assert_int_equal(new_daemon_hears(&message), -EAGAIN);
	house_run(1);
	assert_true(new_daemon_talk_is_over() && !service()->retiring);
	close_fd(&house.peer);
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
}

/* Connects from another process, which the old daemon may kill. Returns its pid. */
static pid_t other_connects(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int status;
	pid_t pid;

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/handover",
		house.state);
	house.peer = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	pid = fork();
	if (pid == 0) {
		if (connect(house.peer, (struct sockaddr *)&address, sizeof(address)) == 0)
			raise(SIGSTOP);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	house_run(0);
	return pid;
}

/* One that is not ready in time, and after that one that is. */
TEST(test_bounds)
{
	struct handover_message message = {0};
	struct fake_cell *cell;
	char text[16] = "";
	int status;
	pid_t pid;

	house_say(OPEN("1", "a"), RESULT("1", "{*}"));
	pid = other_connects();
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
	/* The new daemon has signed the lock, and never serves: it is signed back. */
	assert_int_equal(pwrite(house.daemon.state_lock, "1\n", 2, 0), 2);
	house_run(GIVEN_MS - HOUSE_LOOK_MS);
	assert_int_equal(new_daemon_hears(&message), -EAGAIN);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	house_run(HOUSE_LOOK_MS);
	/* Nothing is written before it has ended: it might cut that off. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	new_daemon_says(HANDOVER_READY);
	house_run(ENDING_MS);
	assert_int_equal(new_daemon_hears(&message), -EAGAIN);
	assert_true(service()->retiring && !old_daemon_has_retired(old_daemon()));
	close_fd(&house.peer);
	house_run(0);
	assert_false(service()->retiring);
	assert_true(pread(house.daemon.state_lock, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(atoi(text), getpid());
	/* The cell of a workspace without calls is ended, and is not waited for for long. */
	house_say(REQUEST("1", "tool.call",
			  "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"x\"}}"),
		RESULT("1", "{\"success\":true,*}"));
	cell = fake_spawner_cells(house.fake->spawner);
	cell->worker.held = cell->files.held = true;
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
	new_daemon_says(HANDOVER_READY);
	house_run(ENDING_MS - HOUSE_LOOK_MS);
	assert_int_equal(new_daemon_hears(&message), -EAGAIN);
	house_run(HOUSE_LOOK_MS);
	message = new_daemon_expects(HANDOVER_HELD);
	assert_true(message_is_of(&message, "root/a"));
	(void)new_daemon_expects(HANDOVER_GO);
	fake_process_end(&cell->worker);
	fake_process_end(&cell->files);
	house_run(0);
	house_run(HOUSE_LOOK_MS);
	message = new_daemon_expects(HANDOVER_RELEASED);
	assert_true(message_is_of(&message, "root/a"));
}

TEST(test_the_end_of_retire_time)
{
	house_reach(RETIRED);
	house_run(HOUSE_RETIRE_MS - 2 * HOUSE_LOOK_MS);
	assert_false(service()->shutting_down);
	house_run(2 * HOUSE_LOOK_MS);
	assert_true(service()->shutting_down);
}

#define TIMES 200 /* twice that is more messages than the socket has room for */

/* Reads what is in the socket. Returns how often the new daemon was told so far, in order. */
static size_t read_all(size_t told)
{
	struct handover_message message;

	while (handover_receive(house.peer, &message) == 1) {
		assert_int_equal(message.type, HANDOVER_COMMANDS);
		assert_int_equal(message.number, told % 2 == 0 ? 2 : 1);
		told++;
	}
	return told;
}

/* The new daemon is told how many commands there are until its socket is full. Returns how often
 * it was when it has read all that was in it. */
static size_t fill(void)
{
	size_t told;

	house_reach(RETIRED);
	for (int i = 0; i < TIMES; i++) {
		house_say(HANG("4"), NULL);
		house_run(HOUSE_LOOK_MS);
		house_say(CANCEL("5", "4"), "{*\"id\":*}\n{*\"id\":*}");
		house_run(HOUSE_LOOK_MS);
	}
	told = read_all(0);
	if (told == 2 * TIMES) {
		print_message("skipped: sockets have room for all of this (wmem_default)\n");
		skip();
	}
	return told;
}

/* A new daemon that does not read for a while is told everything when it does. */
TEST(test_a_slow_reader)
{
	size_t told = fill(), before = 0;

	for (; told != before && told < 2 * TIMES; told = read_all(told)) {
		before = told;
		house_run(0);
	}
	assert_int_equal(told, 2 * TIMES);
}

/* What the loop has not sent is sent at the end. */
TEST(test_last_words)
{
	size_t told = fill();

	house_end_old_daemon();
	assert_int_equal(read_all(told), 2 * TIMES);
}
