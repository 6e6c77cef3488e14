/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* What a serving cloisterd does while the test, a younger generation, takes over: each message and
 * each end of the talk in each state, what is given and told, and when the elder one ends. */
#include "supervisor/daemon/elder.h"

#include "common/cleanup.h"
#include "common/limits.h"
#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/host/handover.h"
#include "supervisor/rpc/listener.h"
#include "supervisor/schedule/usage.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/jsonrpc.h"
#include "tests/unit/fakes/service.h"
#include "tests/unit/fakes/spawner_link.h"
#include "tests/unit/fakes/workers.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#define ALICE     1001
#define LOOK_MS   20
#define SETTLE_MS 15000
#define GIVEN_MS  60000
#define ASK_MS    5000
#define RETIRE_MS 600000 /* as configured */
#define ENDING_MS 1000

/* What elder.c uses of a cloisterd; the service is a copy of the fake's, with the same workspaces,
 * scheduler and configuration. */
struct house {
	struct fake_service *fake;
	struct daemon daemon;
	struct audit *audit;
	int state; /* the state directory */
	int peer;  /* the talk of the younger one */
	struct fake_client client;
};

static struct house house;

static struct elder *elder(void)
{
	return house.daemon.elder;
}

static const struct service *service(void)
{
	return &house.daemon.service;
}

static void run(int64_t ms)
{
	fake_service_pass(house.fake, ms);
}

static void begin(void)
{
	struct fake_service *fake = fake_service_new("[cloister]\n"
						     "retire_time = 10min\n"
						     "[tenant one]\n"
						     "users = 1001\n"
						     "managed = yes\n"
						     "roots = @/root\n");
	char path[300];

	house = (struct house){.fake = fake, .peer = -1};
	assert_int_equal(mkdirat(fake->scratch.fd, "root/a", 0755), 0);
	assert_int_equal(mkdirat(fake->scratch.fd, "root/b", 0755), 0);
	assert_int_equal(
		audit_new("/audit/audit.log", false, &(struct audit_rotation){0}, &house.audit), 0);
	assert_int_equal(audit_start(house.audit), 0);
	house.state = openat(fake->scratch.fd, "state", O_PATH | O_DIRECTORY | O_CLOEXEC);
	house.daemon.service = fake->service;
	house.daemon.service.audit = house.audit;
	house.daemon.spawner = fake->spawner;
	house.daemon.options.agent_fd = -1;
	house.daemon.cgroup.root = -1;
	house.daemon.state_lock =
		openat(fake->scratch.fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	snprintf(path, sizeof(path), "%s/agent.sock", fake->scratch.path);
	assert_int_equal(listener_bind(path, 0600, &house.daemon.listener), 0);
	assert_int_equal(
		listener_start(house.daemon.listener, &house.daemon.service, &agent_endpoint), 0);
	house.daemon.shutdown = shutdown_new(&house.daemon.service);
	assert_int_equal(elder_new(&house.daemon, house.state, &house.daemon.elder), 0);
	assert_int_equal(elder_start(elder()), 0);
	house.client = fake_client_connect(fake, &agent_endpoint, ALICE, ALICE);
}

static void end_elder(void)
{
	elder_free(TAKE_PTR(house.daemon.elder));
	/* In cloisterd no workspace is left then. */
	workspaces_tell_left(house.fake->service.workspaces, NULL, NULL);
}

static void leave(void)
{
	fake_client_close(&house.client);
	listener_free(house.daemon.listener);
	listener_free(house.daemon.control);
	listener_free(house.daemon.egress);
	shutdown_free(house.daemon.shutdown);
	end_elder();
	fake_service_free(house.fake);
	audit_free(house.audit);
	close_fd(&house.peer);
	close_fd(&house.state);
	close_fd(&house.daemon.state_lock);
}

static int set_up(void **state)
{
	(void)state;
	begin();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	leave();
	return 0;
}

/* The younger generation's part. */

static void younger_connects(void)
{
	assert_int_equal(handover_connect(house.state, &house.peer), 0);
	fcntl(house.peer, F_SETFL, O_NONBLOCK);
	run(0);
}

static void younger_says(enum handover_type type)
{
	assert_int_equal(handover_send(house.peer, &(struct handover_message){.type = type}), 0);
	run(0);
}

/* Returns 1 and the next message, -EAGAIN: there is none, or 0: the talk is over. */
static int younger_hears(struct handover_message *ret)
{
	run(0);
	return handover_receive(house.peer, ret);
}

static struct handover_message expect(enum handover_type type)
{
	struct handover_message message = {0};

	assert_int_equal(younger_hears(&message), 1);
	assert_int_equal(message.type, type);
	return message;
}

static bool talk_is_over(void)
{
	struct handover_message message;

	return younger_hears(&message) == 0;
}

static void drop(struct handover_message message)
{
	handover_drop(&message);
}

static void say(const char *line, const char *answer)
{
	fake_client_talk(&house.client, &(struct fake_exchange){line, answer}, 1);
}

#define OPEN(id, name) REQUEST(id, "workspace.open", "{\"root\":\"@/root/" name "\"}")
#define HANG(id) \
	REQUEST(id, "tool.call", "{\"tool\":\"run_command\",\"arguments\":{\"command\":\"hang\"}}")
#define CANCEL(id, of) REQUEST(id, "tool.cancel", "{\"id\":" of "}")

enum state { SERVING, SETTLING, GIVEN, RETIRED, STATES };

/* Brings the elder one to @state. A command goes on, so that it does not end. */
static void reach(enum state state)
{
	say(OPEN("1", "a"), RESULT("1", "{*}"));
	say(HANG("2"), NULL);
	younger_connects();
	if (state == SERVING)
		return;
	fake_audit_stuck = state == SETTLING;
	younger_says(HANDOVER_ASK);
	run(LOOK_MS);
	if (state == SETTLING)
		return;
	drop(expect(HANDOVER_GIVEN));
	if (state == GIVEN)
		return;
	younger_says(HANDOVER_READY);
	run(LOOK_MS);
	drop(expect(HANDOVER_HELD));
	drop(expect(HANDOVER_COMMANDS));
	drop(expect(HANDOVER_GO));
}

/* What may happen to it. */
enum event {
	ASK,
	READY,
	END,
	GIVES,   /* a message that only an elder one sends */
	GARBAGE, /* half a message */
	GONE,
	EVENTS,
};

/* In words: whether it serves, is asked or has retired; whether the talk is over or it ends. */
static const char *outcome(void)
{
	static char text[64];
	const char *now = elder_has_retired(elder()) ? "retired"
			  : service()->retiring      ? "asked"
						     : "serving";

	snprintf(text, sizeof(text), "%s%s%s", now,
		house.peer >= 0 && talk_is_over() ? ", no talk" : "",
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
		younger_says(types[event]);
	run(LOOK_MS);
}

static void test_events_in_states(void **state)
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

	(void)state;
	for (int i = 0; i < STATES; i++)
		for (int j = 0; j < EVENTS; j++) {
			const char *got;

			begin();
			reach((enum state)i);
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
				younger_connects();
				younger_says(HANDOVER_ASK);
				run(LOOK_MS);
				drop(expect(HANDOVER_GIVEN));
			}
			leave();
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
	run(0);
	return service()->unauthorized_clients + service()->connections;
}

static bool is_of(const struct handover_message *message, const char *path)
{
	struct stat status;

	assert_int_equal(fstatat(house.fake->scratch.fd, path, &status, 0), 0);
	return message->dev == status.st_dev && message->ino == status.st_ino &&
	       message->uid == status.st_uid;
}

/* From the question to the elder one's end. */
static void test_taking_over(void **state)
{
	struct handover_message given, held;
	int early, late, third = -1, heard = -1;
	pid_t pid;

	(void)state;
	/* A command goes on in one workspace; the other one has an open cell and nothing to do. */
	say(OPEN("1", "b"), RESULT("1", "{*}"));
	say(OPEN("1", "a"), RESULT("1", "{*}"));
	say(HANG("2"), NULL);
	younger_connects();
	younger_says(HANDOVER_ASK);
	given = expect(HANDOVER_GIVEN);
	assert_true(service()->retiring && fake_audit_held && service()->retirings == 1);
	assert_int_equal(given.number, HANDOVER_OWNS_SOCKETS);
	assert_int_equal(given.n_fds, HANDOVER_FD_MORE);
	assert_true(is_same(given.fds[HANDOVER_FD_LOCK], house.daemon.state_lock));
	assert_true(is_same(given.fds[HANDOVER_FD_AGENT], listener_fd(house.daemon.listener)));
	/* Who comes now waits for the younger one. */
	early = client_connects(given.fds[HANDOVER_FD_AGENT]);
	assert_int_equal(accepted(), 0);
	assert_int_equal(fake_audit_relay, -1);
	younger_says(HANDOVER_READY);
	run(LOOK_MS);
	held = expect(HANDOVER_HELD);
	assert_true(is_of(&held, "root/a"));
	assert_int_equal(expect(HANDOVER_COMMANDS).number, 1);
	(void)expect(HANDOVER_GO);
	assert_true(elder_has_retired(elder()) && service()->retired && fake_audit_relay >= 0);
	late = client_connects(given.fds[HANDOVER_FD_AGENT]);
	assert_int_equal(accepted(), 0);
	/* A third generation finds the younger one. */
	assert_int_equal(handover_connect(house.state, &third), 0);
	run(0);
	assert_int_equal(handover_accept(given.fds[HANDOVER_FD_LINK], &heard, &pid), 0);
	close(third);
	close(heard);
	run(RETIRE_MS / 2);
	assert_false(service()->shutting_down || house.fake->stopped);
	say(CANCEL("3", "2"), "{*\"id\":*}\n{*\"id\":*}");
	run(LOOK_MS);
	assert_int_equal(expect(HANDOVER_COMMANDS).number, 0);
	run(LOOK_MS);
	held = expect(HANDOVER_RELEASED);
	assert_true(is_of(&held, "root/a"));
	run(LOOK_MS);
	assert_true(house.fake->stopped);
	assert_false(service()->shutting_down);
	close(early);
	close(late);
	handover_drop(&given);
}

/* What is given is said in flags. */
static void test_what_is_given(void **state)
{
	struct handover_message given;
	char path[300];

	(void)state;
	snprintf(path, sizeof(path), "%s/control.sock", house.fake->scratch.path);
	assert_int_equal(listener_bind(path, 0600, &house.daemon.control), 0);
	house.daemon.cgroup.root = house.daemon.cgroup.whole = house.state;
	house.daemon.options.agent_fd = 0; /* a service manager's */
	house.daemon.options.egress_fd = -1;
	snprintf(path, sizeof(path), "%s/egress.sock", house.fake->scratch.path);
	assert_int_equal(listener_bind(path, 0600, &house.daemon.egress), 0);
	younger_connects();
	younger_says(HANDOVER_ASK);
	given = expect(HANDOVER_GIVEN);
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

	younger_connects();
	younger_says(HANDOVER_ASK);
	if (after_ms > 0) {
		run(after_ms - 1);
		assert_int_equal(younger_hears(&message), -EAGAIN);
		run(LOOK_MS);
	}
	message = expect(HANDOVER_REFUSED);
	if (!strstr(strndupa(message.text.data, message.text.len), words))
		fail_msg("%.*s", (int)message.text.len, message.text.data);
	assert_true(talk_is_over());
	close_fd(&house.peer);
	assert_false(service()->retiring || fake_audit_held || service()->retirings);
	fd = client_connects(listener_fd(house.daemon.listener));
	assert_int_equal(accepted(), 1);
	close(fd);
	assert_int_equal(accepted(), 0);
}

static void test_refusals(void **state)
{
	(void)state;
	house.daemon.service.shutting_down = true;
	refuses("shutting down", 0);
	house.daemon.service.shutting_down = false;
	fake_audit_stuck = true;
	refuses("the audit log cannot be written; try again later", SETTLE_MS);
	fake_audit_stuck = false;
	/* The generation before has not ended. */
	house.daemon.service.elder.pid = 1;
	refuses("try again later", SETTLE_MS);
	house.daemon.service.elder.pid = 0;
	/* A managed workspace that is being opened may get an id. */
	house.fake->spawner_waits = true;
	say(REQUEST("1", "workspace.open", "{\"workspace\":\"w\"}"), NULL);
	refuses("a managed workspace is being opened", SETTLE_MS);
	house.fake->spawner_waits = false;
	fake_service_match(house.fake, fake_client_take(&house.client), RESULT("1", "{*}"));
	younger_connects();
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
}

/* A look-up and the opening of a directory, which a file system may keep, are not waited for. */
static void test_what_hangs(void **state)
{
	struct spawner_link *spawner = house.fake->spawner;
	struct handover_message held;
	struct fake_client other;

	(void)state;
	house.fake->spawner_waits = true;
	say(OPEN("1", "a"), NULL);
	/* It is found, and its cell is asked for. */
	assert_null(fake_spawner_answer(spawner, fake_spawner_asked(spawner)));
	run(0);
	assert_int_equal(fake_spawner_asked(spawner)->type, SPAWNER_OPEN);
	other = fake_client_connect(house.fake, &agent_endpoint, ALICE, ALICE);
	fake_client_talk(&other, &(struct fake_exchange){OPEN("1", "b"), NULL}, 1);
	younger_connects();
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
	younger_says(HANDOVER_READY);
	run(LOOK_MS);
	held = expect(HANDOVER_HELD);
	assert_true(is_of(&held, "root/a"));
	drop(expect(HANDOVER_GO));
	assert_false(house.fake->stopped);
	fake_client_close(&other);
	house.fake->spawner_waits = false;
	fake_service_match(house.fake, fake_client_take(&house.client), RESULT("1", "{*}"));
	run(LOOK_MS);
	run(LOOK_MS);
	held = expect(HANDOVER_RELEASED);
	assert_true(is_of(&held, "root/a"));
}

/* The younger one is told of copies, and the elder one stays for them. */
static void test_copies(void **state)
{
	struct tenant *tenant = house.daemon.service.config->tenants[0];

	(void)state;
	tenant->usage->copies = 2;
	younger_connects();
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
	younger_says(HANDOVER_READY);
	run(LOOK_MS);
	assert_int_equal(expect(HANDOVER_COPIES).number, 2);
	drop(expect(HANDOVER_GO));
	run(LOOK_MS);
	assert_false(house.fake->stopped);
	tenant->usage->copies = 0;
	run(LOOK_MS);
	assert_int_equal(expect(HANDOVER_COPIES).number, 0);
	run(LOOK_MS);
	assert_true(house.fake->stopped);
}

/* One that wants to take over from another program only. */
static void test_the_same_program(void **state)
{
	struct handover_message ask = {.type = HANDOVER_ASK, .number = HANDOVER_IF_REPLACED}, said;

	(void)state;
	assert_int_equal(handover_program(&ask.dev, &ask.ino), 0);
	younger_connects();
	assert_int_equal(handover_send(house.peer, &ask), 0);
	said = expect(HANDOVER_REFUSED);
	assert_int_equal(said.number, HANDOVER_IF_REPLACED);
	assert_int_equal(said.text.len, 0);
	assert_true(talk_is_over() && !service()->retiring);
	close_fd(&house.peer);
	ask.ino++;
	younger_connects();
	assert_int_equal(handover_send(house.peer, &ask), 0);
	drop(expect(HANDOVER_GIVEN));
}

static void test_one_at_a_time(void **state)
{
	struct handover_message message;
	int second = -1;

	(void)state;
	younger_connects();
	assert_int_equal(handover_connect(house.state, &second), 0);
	run(0);
	assert_int_equal(handover_await(second, 0, &message), 0);
	close(second);
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
}

static void test_one_that_does_not_ask_holds_up_nobody(void **state)
{
	struct handover_message message;

	(void)state;
	younger_connects();
	run(ASK_MS - 1);
	assert_int_equal(younger_hears(&message), -EAGAIN);
	run(1);
	assert_true(talk_is_over() && !service()->retiring);
	close_fd(&house.peer);
	younger_connects();
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
}

/* Connects from another process, which the elder one may kill. Returns its pid. */
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
	run(0);
	return pid;
}

/* One that is not ready in time, and after that one that is. */
static void test_bounds(void **state)
{
	struct handover_message message = {0};
	struct fake_cell *cell;
	char text[16] = "";
	int status;
	pid_t pid;

	(void)state;
	say(OPEN("1", "a"), RESULT("1", "{*}"));
	pid = other_connects();
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
	/* The younger one has signed the lock, and never serves: it is signed back. */
	assert_int_equal(pwrite(house.daemon.state_lock, "1\n", 2, 0), 2);
	run(GIVEN_MS - LOOK_MS);
	assert_int_equal(younger_hears(&message), -EAGAIN);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	run(LOOK_MS);
	/* Nothing is written before it has ended: it might cut that off. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	younger_says(HANDOVER_READY);
	run(ENDING_MS);
	assert_int_equal(younger_hears(&message), -EAGAIN);
	assert_true(service()->retiring && !elder_has_retired(elder()));
	close_fd(&house.peer);
	run(0);
	assert_false(service()->retiring);
	assert_true(pread(house.daemon.state_lock, text, sizeof(text) - 1, 0) > 0);
	assert_int_equal(atoi(text), getpid());
	/* The cell of a workspace without calls is ended, and is not waited for for long. */
	say(REQUEST("1", "tool.call", "{\"tool\":\"read_file\",\"arguments\":{\"path\":\"x\"}}"),
		RESULT("1", "{\"success\":true,*}"));
	cell = fake_spawner_cells(house.fake->spawner);
	cell->worker.held = cell->files.held = true;
	younger_connects();
	younger_says(HANDOVER_ASK);
	drop(expect(HANDOVER_GIVEN));
	younger_says(HANDOVER_READY);
	run(ENDING_MS - LOOK_MS);
	assert_int_equal(younger_hears(&message), -EAGAIN);
	run(LOOK_MS);
	message = expect(HANDOVER_HELD);
	assert_true(is_of(&message, "root/a"));
	(void)expect(HANDOVER_GO);
	fake_process_end(&cell->worker);
	fake_process_end(&cell->files);
	run(0);
	run(LOOK_MS);
	message = expect(HANDOVER_RELEASED);
	assert_true(is_of(&message, "root/a"));
}

static void test_the_end_of_retire_time(void **state)
{
	(void)state;
	reach(RETIRED);
	run(RETIRE_MS - 2 * LOOK_MS);
	assert_false(service()->shutting_down);
	run(2 * LOOK_MS);
	assert_true(service()->shutting_down);
}

#define TIMES 200 /* twice that is more messages than the socket has room for */

/* Reads what is in the socket. Returns how often the younger one was told so far, in order. */
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

/* The younger one is told how many commands there are until its socket is full. Returns how often
 * it was when it has read all that was in it. */
static size_t fill(void)
{
	size_t told;

	reach(RETIRED);
	for (int i = 0; i < TIMES; i++) {
		say(HANG("4"), NULL);
		run(LOOK_MS);
		say(CANCEL("5", "4"), "{*\"id\":*}\n{*\"id\":*}");
		run(LOOK_MS);
	}
	told = read_all(0);
	if (told == 2 * TIMES) {
		print_message("skipped: sockets have room for all of this (wmem_default)\n");
		skip();
	}
	return told;
}

/* A younger one that does not read for a while is told everything when it does. */
static void test_a_slow_reader(void **state)
{
	size_t told = fill(), before = 0;

	(void)state;
	for (; told != before && told < 2 * TIMES; told = read_all(told)) {
		before = told;
		run(0);
	}
	assert_int_equal(told, 2 * TIMES);
}

/* What the loop has not sent is sent at the end. */
static void test_last_words(void **state)
{
	size_t told = fill();

	(void)state;
	end_elder();
	assert_int_equal(read_all(told), 2 * TIMES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_events_in_states),
		cmocka_unit_test_setup_teardown(test_taking_over, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_is_given, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refusals, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_what_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_copies, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_same_program, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_at_a_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			test_one_that_does_not_ask_holds_up_nobody, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_the_end_of_retire_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_slow_reader, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_last_words, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
