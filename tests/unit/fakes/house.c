// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fakes/house.h"

#include "supervisor/agent/agent_endpoint.h"
#include "supervisor/config/config.h"
#include "supervisor/config/tenant.h"
#include "supervisor/connection/listener.h"
#include "supervisor/daemon/shutdown.h"
#include "supervisor/workspace/workspaces.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/audit_writer.h"
#include "tests/unit/fakes/clock.h"

#include <event2/event.h>

struct house house;

struct old_daemon *old_daemon(void)
{
	return house.daemon.old_daemon;
}

const struct service *service(void)
{
	return &house.daemon.service;
}

void house_run(int64_t ms)
{
	fake_service_pass(house.fake, ms);
}

void house_hear_one(void)
{
	event_base_loop(house.fake->service.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
	fake_clock_pass(0);
}

void house_begin(void)
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
	assert_int_equal(old_daemon_new(&house.daemon, house.state, &house.daemon.old_daemon), 0);
	assert_int_equal(old_daemon_start(old_daemon()), 0);
	house.client = fake_client_connect(fake, &agent_endpoint, HOUSE_USER, HOUSE_USER);
}

void house_end_old_daemon(void)
{
	old_daemon_free(TAKE_PTR(house.daemon.old_daemon));
	/* In cloisterd no workspace is left then. */
	workspaces_tell_left(house.fake->service.workspaces, NULL, NULL);
}

void house_leave(void)
{
	fake_client_close(&house.client);
	listener_free(house.daemon.listener);
	listener_free(house.daemon.control);
	listener_free(house.daemon.egress);
	shutdown_free(house.daemon.shutdown);
	house_end_old_daemon();
	fake_service_free(house.fake);
	audit_free(house.audit);
	close_fd(&house.peer);
	close_fd(&house.state);
	close_fd(&house.daemon.state_lock);
}

int house_set_up(void **state)
{
	(void)state;
	house_begin();
	return 0;
}

int house_tear_down(void **state)
{
	(void)state;
	house_leave();
	return 0;
}

/* The new daemon's part. */

void new_daemon_connects(void)
{
	assert_int_equal(handover_connect(house.state, &house.peer), 0);
	fcntl(house.peer, F_SETFL, O_NONBLOCK);
	house_run(0);
}

void new_daemon_says(enum handover_type type)
{
	assert_int_equal(handover_send(house.peer, &(struct handover_message){.type = type}), 0);
	house_run(0);
}

/* Returns 1 and the next message, -EAGAIN: there is none, or 0: the talk is over. */
int new_daemon_hears(struct handover_message *ret)
{
	house_run(0);
	return handover_receive(house.peer, ret);
}

struct handover_message new_daemon_expects(enum handover_type type)
{
	struct handover_message message = {0};

	assert_int_equal(new_daemon_hears(&message), 1);
	assert_int_equal(message.type, type);
	return message;
}

bool new_daemon_talk_is_over(void)
{
	struct handover_message message;

	return new_daemon_hears(&message) == 0;
}

void new_daemon_takes(enum handover_type type)
{
	struct handover_message message = new_daemon_expects(type);

	handover_drop(&message);
}

void house_say(const char *line, const char *answer)
{
	fake_client_talk(&house.client, &(struct fake_exchange){line, answer}, 1);
}

/* Brings the old daemon to @state. A command goes on, so that it does not end. */
void house_reach(enum house_state state)
{
	house_say(OPEN("1", "a"), RESULT("1", "{*}"));
	house_say(HANG("2"), NULL);
	new_daemon_connects();
	if (state == SERVING)
		return;
	fake_audit_stuck = state == SETTLING;
	new_daemon_says(HANDOVER_ASK);
	house_run(HOUSE_LOOK_MS);
	if (state == SETTLING)
		return;
	new_daemon_takes(HANDOVER_GIVEN);
	if (state == GIVEN)
		return;
	new_daemon_says(HANDOVER_READY);
	house_run(HOUSE_LOOK_MS);
	new_daemon_takes(HANDOVER_HELD);
	new_daemon_takes(HANDOVER_COMMANDS);
	new_daemon_takes(HANDOVER_GO);
}

bool message_is_of(const struct handover_message *message, const char *path)
{
	struct stat status;

	assert_int_equal(fstatat(house.fake->scratch.fd, path, &status, 0), 0);
	return message->dev == status.st_dev && message->ino == status.st_ino &&
	       message->uid == status.st_uid;
}
