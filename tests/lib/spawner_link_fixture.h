/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's end of the socket to a spawner that the test plays. */

#include "common/wire/channel.h"
#include "supervisor/base/log.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/cell/spawner_ask.h"
#include "tests/lib/spawner_fixture.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

#include <event2/event.h>
#include <sys/eventfd.h>

static struct event_base *base;
static unsigned losses;

/* What cloisterd was told. */
static struct told {
	unsigned answers;
	int error, fd;
	int fds[SPAWNER_OPENED_MOST];
	char step[64];
	size_t n_parents;
} told;

/* Lets cloisterd do all that is due now. */
static void run(void)
{
	for (int i = 0; i < 4; i++) {
		fake_clock_pass(0);
		event_base_loop(base, EVLOOP_NONBLOCK);
	}
}

static void pass(int64_t ms)
{
	fake_clock_pass(ms);
	run();
}

static void on_lost(void *context)
{
	assert_ptr_equal(context, &losses);
	losses++;
}

/* Waits until the spawner is in the state @wanted of proc_pid_stat(5). */
static void await_state(char wanted)
{
	char path[32], stat[512], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)spawner.pid);
	while (state != wanted) {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t n = read(fd, stat, sizeof(stat) - 1);

		assert_true(n > 0);
		stat[n] = 0;
		state = strrchr(stat, ')')[2];
	}
}

static int set_up(void **state)
{
	static char words[64];
	char *message;

	(void)state;
	log_init(true);
	fake_clock_start();
	losses = 0;
	told = (struct told){.fd = -1};
	memset(told.fds, -1, sizeof(told.fds));
	spawner = (struct spawner){
		.first_words = words, .first_len = put_frame(words, SPAWNER_READY, 0, nothing)};
	base = event_base_new();
	assert_int_equal(event_base_priority_init(base, LOOP_PRIORITIES), 0);
	assert_int_equal(loop_turn_start(base), 0);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(start(NULL, &message), 0);
	await_state('S'); /* a child that has not begun would run */
	assert_int_equal(spawner_link_watch(link_, base, on_lost, &losses), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	channel_done(&spawner.channel);
	spawner_link_free(link_);
	close_fd(&told.fd);
	for (size_t i = 0; i < SPAWNER_OPENED_MOST; i++)
		close_fd(&told.fds[i]);
	loop_turn_stop();
	event_base_free(base);
	fake_clock_stop();
	return 0;
}

static void on_answer(void *context, int error, struct text step, int fds[SPAWNER_OPENED_MOST])
{
	assert_ptr_equal(context, &told);
	told.answers++;
	told.error = error;
	memcpy(told.fds, fds, sizeof(told.fds));
	snprintf(told.step, sizeof(told.step), "%.*s", (int)step.len, step.data ? step.data : "");
}

static void on_looked(void *context, int error, int fd, const struct spawner_looked_up *where)
{
	assert_ptr_equal(context, &told);
	told.answers++;
	told.error = error;
	told.fd = fd;
	told.n_parents = error == 0 ? where->n_parents : 0;
}

static uint32_t proxy_port;        /* of the next request for a cell, */
static const char *tenant = "one"; /* and whose it is */

/* Has cloisterd send a request of @type. Returns 0 or -errno. */
static int ask(uint8_t type, uint64_t *ret_number)
{
	struct spawner_open request = {.kind = WORKSPACE_MANAGED,
		.limits = {.processes = 1, .cpu_weight = 1, .io_weight = 1},
		.proxy_port = proxy_port};
	const struct spawner_look_up look = {
		.below = true, .tenant = text_from(tenant), .path = {"a", 1}};
	static const unsigned n_fds[] = {
		[SPAWNER_OPEN] = SPAWNER_OPEN_FDS,
		[SPAWNER_OPEN_FILES] = SPAWNER_OPEN_FILES_FDS,
		[SPAWNER_PREPARE] = SPAWNER_PREPARE_FDS,
		[SPAWNER_ASSIGN] = SPAWNER_ASSIGN_FDS,
	};
	int fds[SPAWNER_OPEN_FDS], from, r;

	snprintf(request.tenant, sizeof(request.tenant), "%s", tenant);
	if (type == SPAWNER_LOOK_UP) {
		from = open("/", O_PATH | O_CLOEXEC);
		r = spawner_link_look_up(link_, &look, from, on_looked, &told, ret_number);
		close(from);
		return r;
	}
	for (unsigned i = 0; i < n_fds[type]; i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
	return spawner_link_open(link_, type, &request, fds, on_answer, &told, ret_number);
}

/* Checks the next frame that the spawner reads: its type, its call and its descriptors. */
static void hears(uint8_t type, uint64_t call, unsigned n_fds)
{
	struct channel_frame frame;

	while (channel_next(&spawner.channel, &frame) == 0)
		assert_int_equal(channel_fill(&spawner.channel, WIRE_FRAME_MAX), 1);
	assert_int_equal(frame.type, type);
	assert_int_equal(frame.call, call);
	assert_int_equal(frame.n_fds, n_fds);
	channel_frame_done(&frame);
}

/* The spawner sends a frame of @type for @call, with @n_fds eventfds. */
static void says(uint8_t type, uint64_t call, struct text payload, unsigned n_fds)
{
	int fds[CHANNEL_FDS_MAX];

	for (unsigned i = 0; i < n_fds; i++)
		fds[i] = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(channel_send(&spawner.channel, type, call, payload, fds, n_fds), 0);
	assert_int_equal(channel_flush(&spawner.channel), 0);
	run();
}

enum outcome {
	ANSWERED, /* with the frame's error, if it has one */
	LOST,     /* the spawner broke the protocol, so cloisterd ends it */
};
