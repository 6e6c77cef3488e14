/* links: cloister-supervisor */
/* fakes: service clock workers spawner_link process audit_writer */
// SPDX-License-Identifier: Apache-2.0
/* A cloisterd that takes over from another one: what it takes and what it refuses to take, what it
 * hears of it afterwards, and how it sees to its end. A child plays the old daemon. */
#include "supervisor/daemon/new_daemon.h"

#include "supervisor/audit/audit.h"
#include "supervisor/config/config.h"
#include "supervisor/daemon/daemon.h"
#include "supervisor/daemon/notify.h"
#include "supervisor/host/handover.h"
#include "supervisor/host/startup.h"
#include "supervisor/workspace/managed/elsewhere.h"
#include "supervisor/workspace/managed/removal.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/service.h"

#include <poll.h>
#include <sys/un.h>

#include "tests/lib/exits.h"
#include "tests/lib/unit.h"

#define HEARD_MS    (-1)  /* without a bound */
#define SIGNAL_US   20000 /* until the new daemon waits */
#define GONE_MS     1000
#define REMOVALS_MS 1000
#define RETIRE_MS   600000 /* as configured */
#define GRACE_MS    2000
#define PATIENCE_MS 8000

/* The old daemon child's next act: hear a message, send its parent a signal, or say one. */
struct order {
	bool hears;
	int signal;
	struct handover_message message;
	char text[64];
};

struct house {
	struct fake_service *fake;
	struct daemon daemon;
	struct audit *audit;
	char state_dir[300], agent_path[300];
	int state, lock, link, agent; /* what the old daemon has */
	pid_t old_daemon;
	int orders; /* to it */
};

static struct house house;

static const struct service *service(void)
{
	return &house.daemon.service;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(strlen(path) < sizeof(address.sun_path));
	memcpy(address.sun_path, path, strlen(path) + 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

/* The old daemon. Does what it is told until it is told no more. */
static _Noreturn void be_old_daemon(int orders)
{
	struct handover_message heard;
	struct order order;
	int peer = -1, answer;
	pid_t pid;

	while (read(orders, &order, sizeof(order)) == sizeof(order)) {
		while (peer < 0 && handover_accept(house.link, &peer, &pid) < 0)
			usleep(1000);
		order.message.text.data = order.text;
		if (order.hears)
			answer = handover_await(peer, HEARD_MS, &heard) == 1
					 ? (int)(heard.type | heard.number << 8)
					 : 0;
		else if (order.signal)
			answer = usleep(SIGNAL_US) + kill(getppid(), order.signal) +
				 usleep(SIGNAL_US);
		else
			answer = handover_send(peer, &order.message);
		if (write(orders, &answer, sizeof(answer)) < 0)
			break;
	}
	_exit(0);
}

static void order(const struct order *order)
{
	assert_int_equal(write(house.orders, order, sizeof(*order)), sizeof(*order));
}

static void old_daemon_hears(void)
{
	order(&(struct order){.hears = true});
}

static void old_daemon_says(enum handover_type type, const char *text)
{
	struct order said = {.message = {.type = type}};

	snprintf(said.text, sizeof(said.text), "%s", text);
	said.message.text.len = strlen(text);
	order(&said);
}

/* What the next order has led to: the type of what was heard, with its number as the second byte;
 * or 0 for what was said. */
static int done(void)
{
	int answer = -1;

	assert_int_equal(read(house.orders, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static void old_daemon_ends(void)
{
	close_fd(&house.orders);
	if (house.old_daemon > 0)
		assert_int_equal(waitpid(house.old_daemon, NULL, 0), house.old_daemon);
	house.old_daemon = 0;
}

static int set_up(void **state)
{
	struct fake_service *fake = fake_service_new("[cloister]\n"
						     "retire_time = 10min\n"
						     "[tenant one]\n"
						     "users = 1001\n"
						     "roots = @/root\n"
						     "managed = yes\n");
	long holder;
	int ends[2];

	(void)state;
	house = (struct house){.fake = fake};
	assert_int_equal(
		audit_new("/audit/audit.log", false, &(struct audit_rotation){0}, &house.audit), 0);
	assert_int_equal(audit_start(house.audit), 0);
	snprintf(house.state_dir, sizeof(house.state_dir), "%s/state", fake->scratch.path);
	snprintf(house.agent_path, sizeof(house.agent_path), "%s/agent.sock", fake->scratch.path);
	house.state = openat(fake->scratch.fd, "state", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(startup_lock_state(house.state_dir, &house.lock, &holder), 0);
	assert_int_equal(handover_listen(house.state, &house.link), 0);
	house.agent = listen_at(house.agent_path);
	house.daemon.service = fake->service;
	house.daemon.service.audit = house.audit;
	house.daemon.spawner = fake->spawner;
	house.daemon.removal = removal_new(fake->service.workspaces, fake->service.config);
	assert_non_null(house.daemon.removal);
	house.daemon.state_lock = house.daemon.options.agent_fd = -1;
	house.daemon.options.control_fd = house.daemon.options.egress_fd = -1;
	house.daemon.options.state_dir = house.state_dir;
	house.daemon.options.agent_socket = strdup(house.agent_path);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	house.orders = ends[0];
	fflush(NULL);
	house.old_daemon = fork();
	assert_true(house.old_daemon >= 0);
	if (house.old_daemon == 0) {
		close(ends[0]);
		be_old_daemon(ends[1]);
	}
	close(ends[1]);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	old_daemon_ends();
	if (house.daemon.new_daemon)
		workspaces_set_elsewhere(house.fake->service.workspaces, NULL);
	new_daemon_free(house.daemon.new_daemon);
	removal_free(house.daemon.removal);
	fake_service_free(house.fake);
	audit_free(house.audit);
	free(house.daemon.options.agent_socket);
	free(house.daemon.options.control_socket);
	close_fd(&house.daemon.state_lock);
	close_fd(&house.daemon.options.agent_fd);
	close_fd(&house.daemon.options.control_fd);
	close_fd(&house.daemon.options.egress_fd);
	close_fd(&house.lock);
	close_fd(&house.link);
	close_fd(&house.agent);
	close_fd(&house.state);
	return 0;
}

FIXTURE(set_up, tear_down)

/* What the old daemon gives if all is as it should be. */
static struct order gift(void)
{
	return (struct order){.message = {.type = HANDOVER_GIVEN,
				      .number = HANDOVER_OWNS_SOCKETS,
				      .fds = {house.lock, house.link, house.agent},
				      .n_fds = HANDOVER_FD_MORE}};
}

static void ask(void)
{
	new_daemon_ask(&house.daemon);
}

/* The old daemon hears the question and answers with @answer. */
static void will_answer(const struct order *answer)
{
	old_daemon_hears();
	order(answer);
}

static bool is_same(int a, int b)
{
	struct stat one, other;

	assert_int_equal(fstat(a, &one), 0);
	assert_int_equal(fstat(b, &other), 0);
	return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

TEST(test_what_it_takes)
{
	struct order given = gift();
	struct new_daemon *new_daemon;
	int fd;

	will_answer(&given);
	ask();
	assert_int_equal(done(), HANDOVER_ASK);
	new_daemon = house.daemon.new_daemon;
	house.daemon.state_lock = new_daemon_take_lock(new_daemon);
	assert_true(is_same(house.daemon.state_lock, house.lock));
	fd = new_daemon_take_link(new_daemon);
	assert_true(is_same(fd, house.link));
	close(fd);
	assert_true(is_same(house.daemon.options.agent_fd, house.agent));
	/* It removes the socket at its end. */
	assert_true(new_daemon_owns_sockets(new_daemon));
	assert_string_equal(house.daemon.options.agent_socket, house.agent_path);
	assert_int_equal(new_daemon_take_cgroup(new_daemon), -1);
	assert_int_equal(new_daemon_take_lock(new_daemon), -1);
}

/* A service manager's sockets, a control socket, a cgroup and the socket of cloister-egress. */
TEST(test_all_that_there_can_be)
{
	struct order given = gift();
	int fd;

	house.daemon.options.control_socket = strdup(house.agent_path);
	house.fake->service.config->host.egress_socket = strdup(house.agent_path);
	given.message.number = HANDOVER_HAS_CONTROL | HANDOVER_HAS_CGROUP | HANDOVER_HAS_EGRESS |
			       HANDOVER_OWNS_EGRESS;
	given.message.watchdog_us = 30000000;
	given.message.fds[HANDOVER_FD_MORE] = house.agent;
	given.message.fds[HANDOVER_FD_MORE + 1] = house.state;
	given.message.fds[HANDOVER_FD_MORE + 2] = house.agent;
	given.message.n_fds = HANDOVER_FDS_MOST;
	will_answer(&given);
	ask();
	assert_true(is_same(house.daemon.options.control_fd, house.agent));
	fd = new_daemon_take_cgroup(house.daemon.new_daemon);
	assert_true(is_same(fd, house.state));
	close(fd);
	assert_true(is_same(house.daemon.options.egress_fd, house.agent));
	assert_true(new_daemon_owns_egress(house.daemon.new_daemon));
	assert_false(new_daemon_owns_sockets(house.daemon.new_daemon));
	assert_null(house.daemon.options.agent_socket);
	assert_null(house.daemon.options.control_socket);
	assert_int_equal(notify_watchdog_us(), 30000000);
	notify_set_watchdog(0);
}

/* What ends it before anything is served. */

static void spoil_type(struct order *order)
{
	order->message.type = HANDOVER_GO;
}

static void spoil_reason(struct order *order)
{
	order->message = (struct handover_message){.type = HANDOVER_REFUSED, .text.len = 7};
	memcpy(order->text, "not now", 7);
}

static void spoil_number(struct order *order)
{
	order->message.n_fds--;
}

static void spoil_flags(struct order *order)
{
	order->message.number |= HANDOVER_HAS_CGROUP;
}

static void spoil_lock(struct order *order)
{
	order->message.fds[HANDOVER_FD_LOCK] = house.agent;
}

static void spoil_socket(struct order *order)
{
	order->message.fds[HANDOVER_FD_AGENT] = house.lock;
}

static void spoil_name(struct order *order)
{
	(void)order;
	house.daemon.options.agent_socket[1]++;
}

/* It would have to be removed at the end, by a name that is not known. */
static void spoil_owner(struct order *order)
{
	(void)order;
	free(TAKE_PTR(house.daemon.options.agent_socket));
}

static void spoil_egress(struct order *order)
{
	order->message.number |= HANDOVER_HAS_EGRESS;
	order->message.fds[order->message.n_fds++] = house.lock;
}

TEST(test_what_it_does_not_take)
{
	static const struct {
		void (*spoil)(struct order *order);
		const char *words;
	} rows[] = {
		{spoil_type, "cannot take over: the other cloisterd has ended the talk"},
		{spoil_reason, "not now"},
		{spoil_number, "did not give what was expected"},
		{spoil_flags, "did not give what was expected"},
		{spoil_lock, "did not give what was expected"},
		{spoil_socket, "is not a listening Unix socket called /"},
		{spoil_name, "a socket's name changes only by a restart"},
		{spoil_egress, "the socket of cloister-egress that is given is not a listening"},
		{spoil_owner, "is not a listening Unix socket called as configured"},
	};

	tear_down(state);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct order given;

		set_up(state);
		given = gift();
		rows[i].spoil(&given);
		will_answer(&given);
		assert_exits(ask, rows[i].words);
		tear_down(state);
	}
	set_up(state);
	old_daemon_hears();
	assert_int_equal(shutdown(house.orders, SHUT_WR), 0); /* it ends after that */
	assert_exits(ask, "cannot take over: the other cloisterd has ended the talk");
}

/* Asked to take over only from another program, it ends without a failure if there is none. */
TEST(test_the_same_program)
{
	house.daemon.options.if_replaced = true;
	will_answer(&(struct order){
		.message = {.type = HANDOVER_REFUSED, .number = HANDOVER_IF_REPLACED}});
	assert_exits_with(0, ask, "");
	assert_int_equal(done(), HANDOVER_ASK | HANDOVER_IF_REPLACED << 8);
}

TEST(test_without_an_old_daemon)
{
	/* Its socket is left. */
	old_daemon_ends();
	close_fd(&house.link);
	assert_exits(ask, "no cloisterd uses this state directory; start without --take-over");
	assert_int_equal(unlinkat(house.state, "handover", 0), 0);
	assert_exits(ask, "no cloisterd uses this state directory; start without --take-over");
	house.daemon.options.state_dir[0] = '\0';
	assert_exits(ask, "cannot connect to the cloisterd");
}

/* Serving. */

static void serve(void)
{
	new_daemon_serve(house.daemon.new_daemon);
}

/* Takes over, and is about to serve. */
static void take_over(void)
{
	struct order given = gift();

	will_answer(&given);
	ask();
	assert_int_equal(done(), HANDOVER_ASK);
	assert_int_equal(done(), 0);
	house.daemon.state_lock = new_daemon_take_lock(house.daemon.new_daemon);
	new_daemon_begin(house.daemon.new_daemon);
	old_daemon_hears();
}

static void held(enum handover_type type, const char *path)
{
	struct stat status;

	assert_int_equal(fstatat(house.fake->scratch.fd, path, &status, 0), 0);
	order(&(struct order){.message = {.type = type,
				      .dev = status.st_dev,
				      .ino = status.st_ino,
				      .uid = status.st_uid}});
}

/* Whether the old daemon still uses @path. */
static bool is_elsewhere(const char *path)
{
	struct stat status;

	assert_int_equal(fstatat(house.fake->scratch.fd, path, &status, 0), 0);
	return elsewhere_has(service()->old_daemon.workspaces, status.st_dev, status.st_ino);
}

/* Serves, after it was told of two directories and three commands. */
static void begin_to_serve(void)
{
	take_over();
	held(HANDOVER_HELD, "root");
	held(HANDOVER_HELD, "state");
	order(&(struct order){.message = {.type = HANDOVER_COMMANDS, .number = 3}});
	old_daemon_says(HANDOVER_GO, "");
	serve();
	assert_int_equal(done(), HANDOVER_READY);
	for (int i = 0; i < 4; i++)
		assert_int_equal(done(), 0);
}

/* What the old daemon says now is heard. */
static void heard(void)
{
	assert_int_equal(done(), 0);
	fake_service_run(house.fake);
}

TEST(test_what_it_hears)
{
	char pid[16] = "";

	assert_int_equal(pwrite(house.lock, "1\n", 2, 0), 2);
	begin_to_serve();
	assert_int_equal(service()->old_daemon.pid, house.old_daemon);
	assert_int_equal(service()->old_daemon.commands, 3);
	assert_true(is_elsewhere("root") && is_elsewhere("state"));
	/* The lock names the one that serves. */
	assert_true(pread(house.lock, pid, sizeof(pid) - 1, 0) > 0);
	assert_int_equal(atoi(pid), getpid());
	held(HANDOVER_RELEASED, "root");
	heard();
	assert_false(is_elsewhere("root"));
	assert_true(is_elsewhere("state"));
	order(&(struct order){.message = {.type = HANDOVER_COMMANDS, .number = 1}});
	heard();
	assert_int_equal(service()->old_daemon.commands, 1);
	(void)fake_audit_take();
	old_daemon_says(HANDOVER_AUDIT, "\"event\":\"call.ended\"");
	heard();
	assert_string_equal(fake_audit_take(), "\"event\":\"call.ended\"");
	/* One line stays one line. */
	old_daemon_says(HANDOVER_AUDIT, "\"event\":\"a\"}\n{\"event\":\"b\"");
	heard();
	assert_string_equal(fake_audit_take(), "");
	/* What only a new daemon says has no meaning. */
	old_daemon_says(HANDOVER_ASK, "");
	heard();
	old_daemon_says(HANDOVER_KEY, "no record");
	heard();
	assert_int_equal(service()->old_daemon.pid, house.old_daemon);
}

/* Its processes may end a moment later: until then its directories are not used. */
TEST(test_the_end_of_the_old_daemon)
{
	begin_to_serve();
	fake_service_pass(house.fake, 0);
	/* It has left a removal that was not finished. */
	assert_int_equal(mkdirat(house.state, "one", 0700), 0);
	assert_int_equal(mkdirat(house.state, "one/w", 0700), 0);
	assert_int_equal(mkdirat(house.state, "one/.removing-w", 0700), 0);
	old_daemon_ends();
	fake_service_pass(house.fake, 0);
	fake_service_pass(house.fake, GONE_MS - 1);
	assert_true(service()->old_daemon.pid > 0 && is_elsewhere("state"));
	assert_int_equal(faccessat(house.state, "one/.removing-w", F_OK, 0), 0);
	fake_service_pass(house.fake, 1);
	fake_service_pass(house.fake, 0);
	assert_int_equal(faccessat(house.state, "one/.removing-w", F_OK, 0), -1);
	assert_int_equal(faccessat(house.state, "one/w", F_OK, 0), -1);
	assert_int_equal(service()->old_daemon.pid, 0);
	assert_int_equal(service()->old_daemon.commands, 0);
	assert_int_equal(elsewhere_count(service()->old_daemon.workspaces), 0);
	/* Nothing is said to it any more. */
	new_daemon_end_former(house.daemon.new_daemon);
	fake_service_pass(house.fake, RETIRE_MS + GRACE_MS + PATIENCE_MS);
}

/* While a third one takes over, a removal would be one of two generations at once. */
TEST(test_the_end_of_the_old_daemon_one_while_a_third_one_starts)
{
	begin_to_serve();
	fake_service_pass(house.fake, 0);
	assert_int_equal(mkdirat(house.state, "one", 0700), 0);
	assert_int_equal(mkdirat(house.state, "one/w", 0700), 0);
	assert_int_equal(mkdirat(house.state, "one/.removing-w", 0700), 0);
	house.daemon.service.retiring = true;
	old_daemon_ends();
	fake_service_pass(house.fake, 0);
	fake_service_pass(house.fake, GONE_MS);
	assert_int_equal(service()->old_daemon.pid, 0);
	fake_service_pass(house.fake, REMOVALS_MS);
	assert_int_equal(faccessat(house.state, "one/w", F_OK, 0), 0);
	house.daemon.service.retiring = false;
	fake_service_pass(house.fake, REMOVALS_MS);
	fake_service_pass(house.fake, 0);
	assert_int_equal(faccessat(house.state, "one/w", F_OK, 0), -1);
}

TEST(test_one_that_does_not_end)
{
	struct pollfd poll_fd = {.fd = house.orders, .events = POLLIN};
	int status;

	begin_to_serve();
	fake_service_pass(house.fake, RETIRE_MS + GRACE_MS - 1);
	old_daemon_hears();
	fake_service_pass(house.fake, 1);
	assert_int_equal(done(), HANDOVER_END);
	fake_service_pass(house.fake, PATIENCE_MS - 1);
	assert_int_equal(waitpid(house.old_daemon, &status, WNOHANG), 0);
	fake_service_pass(house.fake, 1);
	assert_int_equal(poll(&poll_fd, 1, HEARD_MS), 1);
	assert_int_equal(waitpid(house.old_daemon, &status, 0), house.old_daemon);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	house.old_daemon = 0;
	fake_service_pass(house.fake, 0);
	fake_service_pass(house.fake, GONE_MS);
	assert_int_equal(service()->old_daemon.pid, 0);
}

TEST(test_one_that_ends_before_it_gives_way)
{
	take_over();
	held(HANDOVER_HELD, "root");
	assert_int_equal(shutdown(house.orders, SHUT_WR), 0);
	assert_exits(serve, "cannot take over: the other cloisterd has ended the talk");
	/* A first generation has none before it. */
	new_daemon_serve(NULL);
	new_daemon_end_former(NULL);
}

static void on_signal(int number)
{
	(void)number;
}

/* While it waits for its place, SIGHUP is for later: the old daemon may give way at that moment. */
TEST(test_a_reload_while_it_waits)
{
	struct sigaction action = {.sa_handler = on_signal}, before;

	assert_int_equal(sigaction(SIGHUP, &action, &before), 0);
	take_over();
	order(&(struct order){.signal = SIGHUP});
	old_daemon_says(HANDOVER_GO, "");
	serve();
	assert_int_equal(done(), HANDOVER_READY);
	assert_int_equal(sigaction(SIGHUP, &before, NULL), 0);
}

static void serve_until_alarm(void)
{
	ualarm(SIGNAL_US, SIGNAL_US);
	serve();
}

/* But it can be told to end. */
TEST(test_told_to_end_while_it_waits)
{
	struct sigaction action = {.sa_handler = on_signal}, before;

	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	take_over();
	assert_exits(serve_until_alarm, "cannot take over: it was told to end");
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}
