/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer house */
// SPDX-License-Identifier: Apache-2.0
/* What a serving cloisterd does while the test, a new daemon, takes over: each message and
 * each end of the talk in each state, what is given and told, and when the old daemon ends. */
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/listener.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/old_daemon.h"
#include "supervisor/host/handover.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/selftest/selftest.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/house.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"
#include "tests/unit/fakes/workers.h"

#include <sys/un.h>

#define SETTLE_MS 15000
#define ENDING_MS 1000

/* What may happen to it. */
enum event {
	ASK,
	READY,
	END,
	GIVES,   /* a message that only an old daemon sends */
	GARBAGE, /* half a message */
	GONE,
	EVENTS,
};

/* In words: whether it serves, is asked or has retired; whether the talk is over or it ends. */
static const char *outcome(void)
{
	static char text[64];
	const char *now = old_daemon_has_retired(old_daemon()) ? "retired"
			  : service()->retiring                ? "asked"
							       : "serving";

	snprintf(text, sizeof(text), "%s%s%s", now,
		house.peer >= 0 && new_daemon_talk_is_over() ? ", no talk" : "",
		service()->shutting_down ? ", ends" : "");
	return text;
}

static void cause(enum event event)
{
	static const enum handover_type types[] = {
		[ASK] = HANDOVER_ASK,
		[READY] = HANDOVER_READY,
		[END] = HANDOVER_END,
		[GIVES] = HANDOVER_GIVEN,
	};

	if (event == GARBAGE)
		assert_int_equal(send(house.peer, "x", 1, 0), 1);
	else if (event == GONE)
		close_fd(&house.peer);
	else
		new_daemon_says(types[event]);
	house_run(HOUSE_LOOK_MS);
}

FIXTURE(house_set_up, house_tear_down)

TEST_WITH(test_events_in_states, NULL, NULL)
{
	/* clang-format off */
	static const char *const expected[STATES][EVENTS] = {
		[SERVING] = {
			[ASK] = "asked",
			[READY] = "serving, no talk",
			[END] = "serving, no talk",
			[GIVES] = "serving, no talk",
			[GARBAGE] = "serving, no talk",
			[GONE] = "serving",
		},
		[SETTLING] = {
			[ASK] = "serving, no talk",
			[READY] = "serving, no talk",
			[END] = "serving, no talk",
			[GIVES] = "serving, no talk",
			[GARBAGE] = "serving, no talk",
			[GONE] = "serving",
		},
		[GIVEN] = {
			[ASK] = "serving, no talk",
			[READY] = "retired",
			[END] = "serving, no talk",
			[GIVES] = "serving, no talk",
			[GARBAGE] = "serving, no talk",
			[GONE] = "serving",
		},
		[RETIRED] = {
			[ASK] = "retired",
			[READY] = "retired",
			[END] = "retired, ends",
			[GIVES] = "retired",
			[GARBAGE] = "retired, ends",
			[GONE] = "retired, ends",
		},
	};
	/* clang-format on */

	for (int i = 0; i < STATES; i++)
		for (int j = 0; j < EVENTS; j++) {
			const char *got;

			house_begin();
			house_reach((enum house_state)i);
			cause((enum event)j);
			got = outcome();
			if (strcmp(got, expected[i][j]) != 0)
				fail_msg("state %d, event %d: %s", i, j, got);
			/* Whoever does not take over can ask again. */
			if (!service()->retiring && house.peer >= 0)
				close_fd(&house.peer);
			if (!service()->retiring && !service()->retired) {
				assert_false(fake_audit_held);
				fake_audit_stuck = false;
				new_daemon_connects();
				new_daemon_says(HANDOVER_ASK);
				house_run(HOUSE_LOOK_MS);
				new_daemon_takes(HANDOVER_GIVEN);
			}
			house_leave();
		}
}

/* It was ready, and has gone or said more by the time that the old daemon, which was stopped,
 * looks: nothing is given to nobody. */
TEST_WITH(test_ready_and_gone, NULL, NULL)
{
	static const struct handover_message ready = {.type = HANDOVER_READY};
	static const struct handover_message end = {.type = HANDOVER_END};

	for (int says_more = 0; says_more < 2; says_more++) {
		house_begin();
		house_reach(GIVEN);
		assert_int_equal(handover_send(house.peer, &ready), 0);
		if (says_more)
			assert_int_equal(handover_send(house.peer, &end), 0);
		else
			close_fd(&house.peer);
		house_hear_one();
		assert_false(old_daemon_has_retired(old_daemon()));
		house_run(HOUSE_LOOK_MS);
		assert_string_equal(outcome(), says_more ? "serving, no talk" : "serving");
		close_fd(&house.peer);
		house_leave();
	}
}

static bool is_same(int a, int b)
{
	struct stat one, other;

	assert_int_equal(fstat(a, &one), 0);
	assert_int_equal(fstat(b, &other), 0);
	return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* Connects a client to the agent socket @listener. */
static int client_connects(int listener)
{
	struct sockaddr_un address;
	socklen_t size = sizeof(address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, size), 0);
	return fd;
}

/* How many of those who have connected were accepted. They are no users of the tenant. */
static size_t accepted(void)
{
	house_run(0);
	return service()->unauthorized_clients + service()->connections;
}

/* From the question to the old daemon's end. */
TEST(test_taking_over)
{
	struct handover_message given, held;
	int early, late, third = -1, heard = -1;
	pid_t pid;

	/* A command goes on in one workspace; the other one has an open cell and nothing to do. */
	house_say(OPEN("1", "b"), RESULT("1", "{*}"));
	house_say(OPEN("1", "a"), RESULT("1", "{*}"));
	house_say(HANG("2"), NULL);
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	given = new_daemon_expects(HANDOVER_GIVEN);
	assert_true(service()->retiring && fake_audit_held && service()->retirings == 1);
	assert_int_equal(given.number, HANDOVER_OWNS_SOCKETS);
	assert_int_equal(given.n_fds, HANDOVER_FD_MORE);
	assert_true(is_same(given.fds[HANDOVER_FD_LOCK], house.daemon.state_lock));
	assert_true(is_same(given.fds[HANDOVER_FD_AGENT], listener_fd(house.daemon.listener)));
	/* Who comes now waits for the new daemon. */
	early = client_connects(given.fds[HANDOVER_FD_AGENT]);
	assert_int_equal(accepted(), 0);
	assert_int_equal(fake_audit_relay, -1);
	new_daemon_says(HANDOVER_READY);
	house_run(HOUSE_LOOK_MS);
	held = new_daemon_expects(HANDOVER_HELD);
	assert_true(message_is_of(&held, "root/a"));
	assert_int_equal(new_daemon_expects(HANDOVER_COMMANDS).number, 1);
	(void)new_daemon_expects(HANDOVER_GO);
	assert_true(old_daemon_has_retired(old_daemon()) && service()->retired &&
		    fake_audit_relay >= 0);
	late = client_connects(given.fds[HANDOVER_FD_AGENT]);
	assert_int_equal(accepted(), 0);
	/* A third generation finds the new daemon. */
	assert_int_equal(handover_connect(house.state, &third), 0);
	house_run(0);
	assert_int_equal(handover_accept(given.fds[HANDOVER_FD_LINK], &heard, &pid), 0);
	close(third);
	close(heard);
	house_run(HOUSE_RETIRE_MS / 2);
	assert_false(service()->shutting_down || house.fake->stopped);
	house_say(CANCEL("3", "2"), "{*\"id\":*}\n{*\"id\":*}");
	house_run(HOUSE_LOOK_MS);
	assert_int_equal(new_daemon_expects(HANDOVER_COMMANDS).number, 0);
	house_run(HOUSE_LOOK_MS);
	held = new_daemon_expects(HANDOVER_RELEASED);
	assert_true(message_is_of(&held, "root/a"));
	house_run(HOUSE_LOOK_MS);
	assert_true(house.fake->stopped);
	assert_false(service()->shutting_down);
	close(early);
	close(late);
	handover_drop(&given);
}

/* With two of them, a generation does not retire before the one before it has. */
TEST(test_a_third_generation)
{
	struct handover_message message;

	house.daemon.service.old_daemon.pid = 1;
	house_reach(GIVEN);
	new_daemon_says(HANDOVER_READY);
	house_run(ENDING_MS + HOUSE_LOOK_MS);
	assert_int_equal(new_daemon_hears(&message), -EAGAIN);
	assert_false(old_daemon_has_retired(old_daemon()));
	house.daemon.service.old_daemon.pid = 0;
	house_run(HOUSE_LOOK_MS);
	new_daemon_takes(HANDOVER_HELD);
	new_daemon_takes(HANDOVER_COMMANDS);
	new_daemon_takes(HANDOVER_GO);
}

/* What is given is said in flags. */
TEST(test_what_is_given)
{
	struct handover_message given;
	char path[300];

	snprintf(path, sizeof(path), "%s/control.sock", house.fake->scratch.path);
	assert_int_equal(listener_bind(path, 0600, &house.daemon.control), 0);
	house.daemon.cgroup.root = house.daemon.cgroup.whole = house.state;
	house.daemon.options.agent_fd = 0; /* a service manager's */
	house.daemon.options.egress_fd = -1;
	snprintf(path, sizeof(path), "%s/egress.sock", house.fake->scratch.path);
	assert_int_equal(listener_bind(path, 0600, &house.daemon.egress), 0);
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	given = new_daemon_expects(HANDOVER_GIVEN);
	assert_int_equal(given.number, HANDOVER_HAS_CONTROL | HANDOVER_HAS_CGROUP |
					       HANDOVER_HAS_EGRESS | HANDOVER_OWNS_EGRESS);
	assert_int_equal(given.n_fds, HANDOVER_FDS_MOST);
	assert_true(is_same(given.fds[HANDOVER_FD_MORE], listener_fd(house.daemon.control)));
	assert_true(is_same(given.fds[HANDOVER_FD_MORE + 1], house.state));
	assert_true(is_same(given.fds[HANDOVER_FD_MORE + 2], listener_fd(house.daemon.egress)));
	handover_drop(&given);
}

/* Nothing is given away, and all goes on. */
static void refuses(const char *words, int64_t after_ms)
{
	struct handover_message message = {0};
	int fd;

	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	if (after_ms > 0) {
		for (int64_t ms = 0; ms < after_ms - HOUSE_LOOK_MS; ms += HOUSE_LOOK_MS)
			house_run(HOUSE_LOOK_MS);
		assert_int_equal(new_daemon_hears(&message), -EAGAIN);
		house_run(HOUSE_LOOK_MS);
	}
	message = new_daemon_expects(HANDOVER_REFUSED);
	if (!strstr(strndupa(message.text.data, message.text.len), words))
		fail_msg("%.*s", (int)message.text.len, message.text.data);
	assert_true(new_daemon_talk_is_over());
	close_fd(&house.peer);
	assert_false(service()->retiring || fake_audit_held || service()->retirings);
	fd = client_connects(listener_fd(house.daemon.listener));
	assert_int_equal(accepted(), 1);
	close(fd);
	assert_int_equal(accepted(), 0);
}

TEST(test_refusals)
{
	house.daemon.service.shutting_down = true;
	refuses("shutting down", 0);
	house.daemon.service.shutting_down = false;
	fake_audit_stuck = true;
	refuses("the audit log cannot be written; try again later", LIMIT_HANDOVER_PAUSE_MS);
	fake_audit_stuck = false;
	/* A managed workspace that is being opened may get an id. */
	house.fake->spawner_waits = true;
	house_say(REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}"), NULL);
	refuses("a managed workspace is being opened", SETTLE_MS + LIMIT_HANDOVER_PAUSE_MS);
	house.fake->spawner_waits = false;
	fake_service_match(house.fake, fake_client_take(&house.client), RESULT("1", "{*}"));
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
}

/* A tenant whose workspace is not settled for long keeps nobody else from being served: there is a
 * pause, and another one when it may be worth it. */
TEST_WITH(test_pauses, NULL, NULL)
{
	int fd;

	for (int settles = 0; settles < 2; settles++) {
		house_begin();
		house.fake->spawner_waits = true;
		house_say(REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}"), NULL);
		new_daemon_connects();
		new_daemon_says(HANDOVER_ASK);
		house_run(LIMIT_HANDOVER_PAUSE_MS - HOUSE_LOOK_MS);
		assert_true(service()->retiring && fake_audit_held);
		fd = client_connects(listener_fd(house.daemon.listener));
		assert_int_equal(accepted(), 0);
		house_run(HOUSE_LOOK_MS);
		assert_false(service()->retiring || fake_audit_held);
		house_run(HOUSE_LOOK_MS);
		assert_int_equal(accepted(), 1);
		assert_true(service()->gives_way);
		/* The next pause is its last. */
		fake_audit_stuck = !settles;
		house.fake->spawner_waits = false;
		fake_service_match(house.fake, fake_client_take(&house.client), RESULT("1", "{*}"));
		house_run(HOUSE_LOOK_MS);
		house_run(0);
		if (settles) {
			new_daemon_takes(HANDOVER_GIVEN);
		} else {
			assert_true(service()->retiring);
			house_run(LIMIT_HANDOVER_PAUSE_MS);
			new_daemon_takes(HANDOVER_REFUSED);
			assert_true(new_daemon_talk_is_over());
			assert_false(service()->retiring || service()->gives_way);
		}
		fake_audit_stuck = false;
		close(fd);
		house_leave();
	}
}

static void on_selftest_ended(const struct selftest *selftest)
{
	(void)selftest;
}

/* It may wait for commands that another tenant has, so all are served meanwhile. */
TEST(test_a_selftest)
{
	struct handover_message message;
	struct selftest *selftest;

	selftest = selftest_new(&house.daemon.service, on_selftest_ended);
	assert_non_null(selftest);
	house.daemon.service.selftest = selftest;
	house.fake->spawner_waits = true;
	selftest_run(selftest);
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	house_run(SETTLE_MS - 1);
	assert_int_equal(new_daemon_hears(&message), -EAGAIN);
	assert_false(service()->retiring || fake_audit_held);
	house_run(HOUSE_LOOK_MS);
	message = new_daemon_expects(HANDOVER_REFUSED);
	assert_non_null(memmem(message.text.data, message.text.len, "a self-test runs", 16));
	house.daemon.service.selftest = NULL;
	selftest_free(selftest);
}

/* None begins while another generation starts. */
TEST(test_no_selftest_begins)
{
	struct selftest *selftest;

	selftest = selftest_new(&house.daemon.service, on_selftest_ended);
	assert_non_null(selftest);
	assert_null(selftest_obstacle(selftest));
	fake_audit_stuck = true;
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	assert_non_null(selftest_obstacle(selftest));
	house_run(LIMIT_HANDOVER_PAUSE_MS);
	new_daemon_takes(HANDOVER_REFUSED);
	fake_audit_stuck = false;
	assert_null(selftest_obstacle(selftest));
	selftest_free(selftest);
}

/* A look-up and the opening of a directory, which a file system may keep, are not waited for. */
TEST(test_what_hangs)
{
	struct spawner_link *spawner = house.fake->spawner;
	struct handover_message held;
	struct fake_client other;

	house.fake->spawner_waits = true;
	house_say(OPEN("1", "a"), NULL);
	/* It is found, and its cell is asked for. */
	assert_null(fake_spawner_answer(spawner, fake_spawner_asked(spawner)));
	house_run(0);
	assert_int_equal(fake_spawner_asked(spawner)->type, SPAWNER_OPEN);
	other = fake_client_connect(house.fake, &agent_endpoint, HOUSE_USER, HOUSE_USER);
	fake_client_talk(&other, &(struct fake_exchange){OPEN("1", "b"), NULL}, 1);
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
	new_daemon_says(HANDOVER_READY);
	house_run(HOUSE_LOOK_MS);
	held = new_daemon_expects(HANDOVER_HELD);
	assert_true(message_is_of(&held, "root/a"));
	new_daemon_takes(HANDOVER_GO);
	assert_false(house.fake->stopped);
	fake_client_close(&other);
	house.fake->spawner_waits = false;
	fake_service_match(house.fake, fake_client_take(&house.client), RESULT("1", "{*}"));
	house_run(HOUSE_LOOK_MS);
	house_run(HOUSE_LOOK_MS);
	held = new_daemon_expects(HANDOVER_RELEASED);
	assert_true(message_is_of(&held, "root/a"));
}

/* The new daemon is told of copies, and the old daemon stays for them. */
TEST(test_copies)
{
	struct tenant *tenant = house.daemon.service.config->tenants[0];

	tenant->usage->copies = 2;
	new_daemon_connects();
	new_daemon_says(HANDOVER_ASK);
	new_daemon_takes(HANDOVER_GIVEN);
	new_daemon_says(HANDOVER_READY);
	house_run(HOUSE_LOOK_MS);
	assert_int_equal(new_daemon_expects(HANDOVER_COPIES).number, 2);
	new_daemon_takes(HANDOVER_GO);
	house_run(HOUSE_LOOK_MS);
	assert_false(house.fake->stopped);
	tenant->usage->copies = 0;
	house_run(HOUSE_LOOK_MS);
	assert_int_equal(new_daemon_expects(HANDOVER_COPIES).number, 0);
	house_run(HOUSE_LOOK_MS);
	assert_true(house.fake->stopped);
}

/* One that wants to take over from another program only. */
TEST(test_the_same_program)
{
	struct handover_message ask = {.type = HANDOVER_ASK, .number = HANDOVER_IF_REPLACED}, said;

	assert_int_equal(handover_program(&ask.dev, &ask.ino), 0);
	new_daemon_connects();
	assert_int_equal(handover_send(house.peer, &ask), 0);
	said = new_daemon_expects(HANDOVER_REFUSED);
	assert_int_equal(said.number, HANDOVER_IF_REPLACED);
	assert_int_equal(said.text.len, 0);
	assert_true(new_daemon_talk_is_over() && !service()->retiring);
	close_fd(&house.peer);
	ask.ino++;
	new_daemon_connects();
	assert_int_equal(handover_send(house.peer, &ask), 0);
	new_daemon_takes(HANDOVER_GIVEN);
}
