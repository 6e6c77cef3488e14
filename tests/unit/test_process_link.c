/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* Output that a workspace's process wrote before it ended is read, however its end is noticed. */
#include "supervisor/cell/process_link.h"

#include "common/wire/channel.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/call/service.h"
#include "supervisor/schedule/loop_share.h"
#include "tests/lib/unit.h"

#include <event2/event.h>
#include <sys/pidfd.h>

#define FRAMES       3
#define FLOODS       8
#define LARGE_FRAMES 64 /* more than a socket holds */
#define FLOOD        (65536 / sizeof(struct wire_header))

/* The callbacks in order: 'f' for a frame, 'l' for the loss, 'g' for the end. */
struct fixture {
	struct event_base *base;
	struct process_link *link;
	char told[16];
	size_t n;
	pid_t process;
	struct channel theirs;
};

static int on_frame(void *context, const struct channel_frame *frame)
{
	struct fixture *f = context;

	assert_int_equal(frame->call, f->n + 1);
	f->told[f->n++] = 'f';
	return 0;
}

static void on_lost(void *context)
{
	struct fixture *f = context;

	f->told[f->n++] = 'l';
}

static void on_gone(void *context)
{
	struct fixture *f = context;

	f->told[f->n++] = 'g';
}

static struct loop_share_flow tenant;

static struct loop_share_flow *share(void *context)
{
	(void)context;
	return &tenant;
}

static struct shared_fd_sum *no_sum(void *context)
{
	(void)context;
	return NULL;
}

static uint64_t unread_of_tenant;

static uint64_t *count_unread(void *context)
{
	(void)context;
	return &unread_of_tenant;
}

/* Starts a process that does nothing; the test writes to its socket. */
static int set_up(void **state)
{
	static struct fixture f;
	struct process_link_owner owner = {
		on_frame, on_lost, on_gone, share, no_sum, count_unread, &f};
	int fds[2];

	/* Forked first, so that the process inherits none of the descriptors. */
	f = (struct fixture){.process = fork()};
	if (f.process == 0)
		for (;;)
			pause();
	f.base = event_base_new();
	if (!f.base || event_base_priority_init(f.base, LOOP_PRIORITIES) < 0 ||
		loop_turn_start(f.base) < 0 || loop_share_start(f.base) < 0 ||
		process_link_new(f.base, &owner, &f.link, fds) < 0)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	channel_init(&f.theirs, fds[0], fds[1], 0);
	*state = &f;
	return process_link_started(f.link, pidfd_open(f.process, 0));
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	process_link_free(f->link);
	channel_done(&f->theirs);
	loop_share_stop();
	loop_turn_stop();
	event_base_free(f->base);
	return waitpid(f->process, NULL, 0) == f->process ? 0 : -1;
}

FIXTURE(set_up, tear_down)

static void write_frames(struct fixture *f)
{
	for (unsigned i = 1; i <= FRAMES; i++)
		assert_int_equal(channel_send(&f->theirs, 1, i, TEXT_LITERAL("said"), NULL, 0), 0);
	assert_int_equal(channel_flush(&f->theirs), 0);
}

/* The process no longer reads, and a request is sent before its output is read. */
TEST(test_write_fails_first)
{
	struct fixture *f = *state;

	write_frames(f);
	close_fd(&f->theirs.in);
	process_link_send(f->link, 1, 1, TEXT_LITERAL("do"), NULL, 0);
	loop_turn_end();
	assert_string_equal(f->told, "fffl");
	event_base_loop(f->base, EVLOOP_ONCE);
	assert_string_equal(f->told, "ffflg");
}

/* The kernel refuses it (SO_PASSRIGHTS), or the process is lost. */
TEST(test_a_descriptor_that_is_sent)
{
	struct fixture *f = *state;
	int *out = &f->theirs.out;

	assert_int_equal(
		channel_send(&f->theirs, 1, 1, TEXT_LITERAL("said"), &(int){dup(*out)}, 1), 0);
	if (channel_flush(&f->theirs) == 0) {
		event_base_loop(f->base, EVLOOP_ONCE);
		assert_string_equal(f->told, "l");
	} else {
		assert_int_equal(errno, EPERM);
		event_base_loop(f->base, EVLOOP_NONBLOCK);
		assert_string_equal(f->told, "");
	}
}

/* cloisterd notices the death of the process first. */
TEST(test_death_first)
{
	struct fixture *f = *state;
	siginfo_t info;

	write_frames(f);
	kill(f->process, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)f->process, &info, WEXITED | WNOWAIT), 0);
	event_base_loop(f->base, EVLOOP_ONCE);
	assert_string_equal(f->told, "ffflg");
}

/* What does not fit the socket is sent as the process reads, and the link is not lost. */
TEST(test_what_does_not_fit_is_sent_later)
{
	static char payload[32 * KIB];
	struct fixture *f = *state;
	struct channel_frame frame;
	unsigned received = 0;
	int next;

	fcntl(f->theirs.in, F_SETFL, O_NONBLOCK);
	for (unsigned i = 0; i < LARGE_FRAMES; i++)
		process_link_send(f->link, 1, 1, (struct text){payload, sizeof(payload)}, NULL, 0);
	loop_turn_end();
	assert_true(process_links_waiting() > 0);
	assert_int_equal(unread_of_tenant, process_links_waiting());
	while (received < LARGE_FRAMES) {
		assert_true(channel_fill(&f->theirs, WIRE_FRAME_MAX) > 0);
		while ((next = channel_next(&f->theirs, &frame)) > 0) {
			assert_int_equal(frame.payload.len, sizeof(payload));
			received++;
		}
		assert_int_equal(next, 0);
		event_base_loop(f->base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(process_links_waiting(), 0);
	assert_int_equal(unread_of_tenant, 0);
	assert_string_equal(f->told, "");
}

/* The process reads all that is there for it. */
static void read_all(struct fixture *f)
{
	struct channel_frame frame;

	fcntl(f->theirs.in, F_SETFL, O_NONBLOCK);
	while (channel_fill(&f->theirs, WIRE_FRAME_MAX) > 0)
		while (channel_next(&f->theirs, &frame) > 0)
			;
}

static uint64_t say_and_flush(struct fixture *f)
{
	process_link_send(f->link, 1, 1, TEXT_LITERAL("end"), NULL, 0);
	loop_turn_end();
	return process_link_said(f->link);
}

/* More is sent all the time, but the process has read what was sent by then. It does not count as
 * one that reads nothing. */
TEST(test_what_a_process_has_heard)
{
	struct fixture *f = *state;
	uint64_t first = say_and_flush(f), second;

	assert_false(process_link_has_heard(f->link, first));
	second = say_and_flush(f);
	assert_true(second > first);
	assert_false(process_link_has_heard(f->link, first));
	read_all(f);
	/* After this there is again something that the process has not read. */
	(void)say_and_flush(f);
	assert_true(process_link_has_heard(f->link, first));
	assert_true(process_link_has_heard(f->link, second));
	assert_false(process_link_has_heard(f->link, process_link_said(f->link)));
	read_all(f);
	assert_true(process_link_has_heard(f->link, process_link_said(f->link)));
}

/* One of many links. */
struct crowd {
	struct loop_share_flow *flow;
	struct process_link *link;
	int fds[2];
	unsigned frames;
	unsigned before; /* how many frames of all links came before its own first one */
};

static unsigned frames;

static int hear(void *context, const struct channel_frame *frame)
{
	struct crowd *crowd = context;

	(void)frame;
	if (crowd->frames++ == 0)
		crowd->before = frames;
	frames++;
	return 0;
}

static void hear_nothing(void *context)
{
	(void)context;
}

static struct loop_share_flow *share_of_crowd(void *context)
{
	return ((struct crowd *)context)->flow;
}

static void join(struct fixture *f, struct crowd *crowd, struct loop_share_flow *flow)
{
	struct process_link_owner owner = {
		hear, hear_nothing, hear_nothing, share_of_crowd, no_sum, count_unread, crowd};

	*crowd = (struct crowd){.flow = flow};
	assert_int_equal(process_link_new(f->base, &owner, &crowd->link, crowd->fds), 0);
	assert_int_equal(process_link_started(crowd->link, pidfd_open(f->process, 0)), 0);
}

static void say(struct crowd *crowd)
{
	const struct wire_header header = {.version = WIRE_VERSION, .type = 1};

	assert_int_equal(write(crowd->fds[1], &header, sizeof(header)), sizeof(header));
}

/* Writes as many empty frames as one turn of the loop takes. */
static void flood(struct crowd *crowd)
{
	static struct wire_header headers[FLOOD];

	for (size_t i = 0; i < FLOOD; i++)
		headers[i] = (struct wire_header){.version = WIRE_VERSION, .type = 1};
	assert_int_equal(write(crowd->fds[1], headers, sizeof(headers)), sizeof(headers));
}

static void leave(struct crowd *crowd)
{
	process_link_free(crowd->link);
	close(crowd->fds[0]);
	close(crowd->fds[1]);
}

/* Several flooding processes of one tenant share that tenant's slices. */
TEST(test_floods_take_turns_by_tenant)
{
	static struct loop_share_flow flooding, other;
	static struct crowd floods[FLOODS];
	struct fixture *f = *state;
	struct crowd one;

	for (size_t i = 0; i < FLOODS; i++) {
		join(f, &floods[i], &flooding);
		flood(&floods[i]);
	}
	join(f, &one, &other);
	say(&one);
	while (one.frames == 0)
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_true(one.before <= LIMIT_SLICE_FRAMES + 1);
	for (size_t i = 0; i < FLOODS; i++)
		while (floods[i].frames < FLOOD)
			event_base_loop(f->base, EVLOOP_ONCE);
	/* A link that is freed has no task waiting. */
	say(&floods[0]);
	say(&floods[1]);
	event_base_loop(f->base, EVLOOP_NONBLOCK);
	for (size_t i = 0; i < FLOODS; i++)
		leave(&floods[i]);
	leave(&one);
	event_base_loop(f->base, EVLOOP_NONBLOCK);
}
