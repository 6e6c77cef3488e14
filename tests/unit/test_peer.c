/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* What a workspace's process wrote before it ended is heard, whichever way its end is noticed. */
#include "supervisor/workspace/peer.h"

#include "common/channel.h"
#include "common/cleanup.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/call/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <event2/event.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES 3

/* What the owner was told, in order: 'f' for a frame, 'l' for the loss, 'g' for the end. */
struct fixture {
	struct event_base *base;
	struct peer *peer;
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

/* A process that does nothing, for whom the test speaks. */
static int set_up(void **state)
{
	static struct fixture f;
	struct peer_owner owner = {on_frame, on_lost, on_gone, &f};
	int fds[2];

	/* First, so that it has none of the descriptors. */
	f = (struct fixture){.process = fork()};
	if (f.process == 0)
		for (;;)
			pause();
	f.base = event_base_new();
	if (!f.base || event_base_priority_init(f.base, LOOP_PRIORITIES) < 0 ||
		loop_turn_start(f.base) < 0 || peer_new(f.base, &owner, &f.peer, fds) < 0)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	channel_init(&f.theirs, fds[0], fds[1], 0);
	*state = &f;
	return peer_started(f.peer, pidfd_open(f.process, 0));
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	peer_free(f->peer);
	channel_done(&f->theirs);
	loop_turn_stop();
	event_base_free(f->base);
	return waitpid(f->process, NULL, 0) == f->process ? 0 : -1;
}

static void write_frames(struct fixture *f)
{
	for (unsigned i = 1; i <= FRAMES; i++)
		assert_int_equal(channel_send(&f->theirs, 1, i, TEXT_LITERAL("said"), NULL, 0), 0);
	assert_int_equal(channel_flush(&f->theirs), 0);
}

/* It hears nothing any more, and something is sent to it before what it wrote is read. */
static void test_write_fails_first(void **state)
{
	struct fixture *f = *state;

	write_frames(f);
	close_fd(&f->theirs.in);
	peer_send(f->peer, 1, 1, TEXT_LITERAL("do"), NULL, 0);
	loop_turn_end();
	assert_string_equal(f->told, "fffl");
	event_base_loop(f->base, EVLOOP_ONCE);
	assert_string_equal(f->told, "ffflg");
}

/* Its death is seen first. */
static void test_death_first(void **state)
{
	struct fixture *f = *state;
	siginfo_t info;

	write_frames(f);
	kill(f->process, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)f->process, &info, WEXITED | WNOWAIT), 0);
	event_base_loop(f->base, EVLOOP_ONCE);
	assert_string_equal(f->told, "ffflg");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_write_fails_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_death_first, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
