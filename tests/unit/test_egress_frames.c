/* links: cloister-supervisor */
/* fakes: egress helper_process fd_closer clock */
// SPDX-License-Identifier: Apache-2.0
/* A cloister-egress that was taken over floods cloisterd, or sends what no cloister-egress sends.
 * test_egress_link.c has what an honest one says. */
#include "supervisor/workspace/network/egress_link.h"

#include "common/wire/wire_spawner.h"
#include "supervisor/base/loop_turn.h"
#include "supervisor/schedule/loop_share.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"
#include "tests/unit/fakes/egress.h"

#include <event2/event.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

static const struct text nothing = {NULL, 0};
static const struct text ready = {"\0\0\0\0", 4};

/* A flood. */

static struct flood {
	unsigned came;  /* refusals of which the observer was told */
	int64_t us;     /* how long each takes */
	unsigned turns; /* slices that another flow got */
	unsigned at;    /* how many had come at its last slice */
	unsigned most;  /* the most between two of them */
} flood;

static struct loop_share_flow tenant;

static void take_slice(void *context)
{
	const unsigned since = flood.came - flood.at;

	flood.most = since > flood.most ? since : flood.most;
	flood.at = flood.came;
	flood.turns++;
	fake_clock_work(1);
	if (flood.turns < 100)
		loop_share_wait(context, &tenant);
}

/*
 * They come whole and in order: each has the next number. The loop goes on with what else is due
 * after the slice that they come in.
 */
static void on_flood(const struct egress_denied *denied)
{
	event_base_loopbreak(egress.base);
	flood.came++;
	assert_int_equal(denied->port, flood.came);
	fake_clock_work(flood.us);
}

/* Puts @n refusals into the socket, numbered from @first. Returns their bytes. */
static size_t put_flood(uint64_t cell, unsigned first, unsigned n)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct text denied = fake_egress_denied(0, (uint16_t)(first + i));

		assert_int_equal(
			channel_send(&egress.channel, EGRESS_DENIED, cell, denied, NULL, 0), 0);
		bytes += WIRE_HEADER_SIZE + denied.len;
	}
	assert_int_equal(channel_flush(&egress.channel), 0);
	return bytes;
}

/* Makes a cell, the one that the frames of a flood are about. */
static struct fake_egress_cell begin_flood(int64_t us)
{
	struct fake_egress_cell cell;

	fake_egress_ready();
	cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
	fake_egress_run();
	fake_egress_expect(EGRESS_OPEN, 1, CELL_SOCKETS_EGRESS);
	flood = (struct flood){.us = us};
	egress.on_denied = on_flood;
	return cell;
}

/* Runs the loop until cloisterd has acted on frames of the flood, or nothing is due. */
static void run_until_slice(void)
{
	event_base_loop(egress.base, EVLOOP_NONBLOCK);
}

/*
 * A cloister-egress that was taken over floods: between two slices of a tenant cloisterd acts on no
 * more of its frames than a slice has, in number and in time.
 */
TEST(test_a_flood_does_not_take_the_loop)
{
	static const struct {
		int64_t us;
		unsigned most;
	} rows[] = {
		{1, LIMIT_SLICE_FRAMES},
		{LIMIT_SLICE_US / LIMIT_SLICE_FRAMES, LIMIT_SLICE_FRAMES},
		{LIMIT_SLICE_US / 4, 4},
		{LIMIT_SLICE_US, 1},
		{7 * LIMIT_SLICE_US, 1},
	};
	enum { FRAMES = 4 * LIMIT_SLICE_FRAMES };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct loop_share_task other = {.act = take_slice, .context = &other};
		struct fake_egress_cell cell;

		fake_egress_begin(FAKE_EGRESS_USER);
		cell = begin_flood(rows[i].us);
		put_flood(1, 1, FRAMES);
		loop_share_wait(&other, &tenant);
		for (unsigned turn = 0; flood.came < FRAMES; turn++) {
			const unsigned before = flood.came;

			assert_true(turn < 2 * FRAMES + 100);
			run_until_slice();
			/* Nor does one callback act on more, whatever else is due. */
			assert_true(flood.came - before <= rows[i].most);
		}
		if (flood.most != rows[i].most)
			fail_msg("row %zu: %u frames between two slices", i, flood.most);
		assert_true(flood.turns >= 3);
		loop_share_cancel(&other);
		assert_true(egress_link_is_ready(egress.link));
		fake_egress_cell_end(&cell);
		fake_egress_end();
	}
}

/* cloisterd reads no more while frames wait for their slice: its memory has a bound. */
TEST_WITH(test_a_flood_takes_no_memory, fake_egress_set_up_user, fake_egress_tear_down)
{
	enum { FRAMES = 12 * LIMIT_SLICE_FRAMES };
	struct fake_egress_cell cell;
	size_t said, each;

	cell = begin_flood(LIMIT_SLICE_US / 100);
	said = put_flood(1, 1, FRAMES);
	each = said / FRAMES;
	assert_true(said > 2 * WIRE_FRAME_MAX);
	for (unsigned turn = 0; flood.came < FRAMES; turn++) {
		int unread;

		assert_true(turn < FRAMES);
		run_until_slice();
		assert_int_equal(ioctl(fake_helper.given, FIONREAD, &unread), 0);
		assert_true(said - (size_t)unread <= flood.came * each + WIRE_FRAME_MAX);
	}
	fake_egress_cell_end(&cell);
}

/* What came before the end, or before a frame that ends the connection, is acted on; no more is. */
TEST(test_the_end_of_a_flood)
{
	enum { FRAMES = 2 * LIMIT_SLICE_FRAMES + 7 };
	enum how { CLOSED, GARBAGE, HOWS };

	for (enum how how = CLOSED; how < HOWS; how++) {
		struct fake_egress_cell cell;

		fake_egress_begin(FAKE_EGRESS_USER);
		cell = begin_flood(1);
		put_flood(1, 1, FRAMES);
		if (how == GARBAGE) {
			fake_egress_put(EGRESS_OPEN, 1, nothing);
			put_flood(1, FRAMES + 1, 100);
		} else {
			fake_egress_leave();
		}
		run_until_slice();
		assert_int_equal(flood.came, LIMIT_SLICE_FRAMES);
		assert_true(egress_link_is_ready(egress.link));
		fake_egress_run();
		assert_int_equal(flood.came, FRAMES);
		assert_false(egress_link_is_ready(egress.link));
		fake_egress_cell_end(&cell);
		fake_egress_end();
	}
}

/* A link that is freed in a flood leaves no slice behind. */
TEST_WITH(test_freed_in_a_flood, fake_egress_set_up_user, fake_egress_tear_down)
{
	struct fake_egress_cell cell;

	cell = begin_flood(1);
	put_flood(1, 1, 2 * LIMIT_SLICE_FRAMES);
	run_until_slice();
	fake_egress_cell_end(&cell);
	egress_link_free(egress.link);
	egress.link = NULL;
	/* Nothing waits in the flow to which the slice belonged. */
	assert_false(loop_share_of_nobody()->listed);
	fake_egress_run();
	assert_int_equal(flood.came, LIMIT_SLICE_FRAMES);
}

/* Frames. */

/* A cloister-egress that sends what none sends is ended, and nothing of that frame is used. */
TEST(test_frames)
{
	enum payload { NONE, READY, DENIED, CLOSED, ENDED, FAILED, FILTERED, GARBAGE };
	enum { LATER = true, FIRST = false, LOST = true, KEPT = false };
	static const struct {
		uint8_t type, payload; /* enum payload */
		bool after_ready;      /* or in place of it */
		uint16_t fds;          /* in the header */
		bool lost;
	} rows[] = {
		{EGRESS_READY, READY, FIRST, 0, KEPT},
		{EGRESS_READY, NONE, FIRST, 0, LOST},
		{EGRESS_READY, READY, FIRST, 1, LOST},
		{EGRESS_READY, READY, LATER, 0, LOST},
		{EGRESS_OPENED, NONE, FIRST, 0, LOST},
		{EGRESS_OPEN_FAILED, FAILED, FIRST, 0, LOST},
		{EGRESS_DENIED, DENIED, FIRST, 0, LOST},
		{EGRESS_CLOSED, CLOSED, FIRST, 0, LOST},
		{EGRESS_CALL_ENDED, ENDED, FIRST, 0, LOST},
		{EGRESS_FILTERED, FILTERED, FIRST, 0, LOST},
		{EGRESS_OPENED, NONE, LATER, 0, KEPT},
		{EGRESS_OPENED, GARBAGE, LATER, 0, LOST},
		{EGRESS_OPEN_FAILED, FAILED, LATER, 0, KEPT},
		{EGRESS_OPEN_FAILED, NONE, LATER, 0, LOST},
		{EGRESS_OPEN_FAILED, GARBAGE, LATER, 0, LOST},
		{EGRESS_DENIED, DENIED, LATER, 0, KEPT},
		{EGRESS_DENIED, NONE, LATER, 0, LOST},
		{EGRESS_DENIED, CLOSED, LATER, 0, LOST},
		{EGRESS_DENIED, DENIED, LATER, 1, LOST},
		{EGRESS_DENIED, DENIED, LATER, CHANNEL_FDS_MAX + 1, LOST},
		{EGRESS_CLOSED, CLOSED, LATER, 0, KEPT},
		{EGRESS_CLOSED, GARBAGE, LATER, 0, LOST},
		{EGRESS_CALL_ENDED, ENDED, LATER, 0, KEPT},
		{EGRESS_CALL_ENDED, GARBAGE, LATER, 0, LOST},
		{EGRESS_FILTERED, FILTERED, LATER, 0, KEPT},
		{EGRESS_FILTERED, GARBAGE, LATER, 0, LOST},
		{EGRESS_OPEN, NONE, LATER, 0, LOST},
		{EGRESS_RETIRED, NONE, LATER, 0, LOST},
		{EGRESS_FILTERED + 1, NONE, LATER, 0, LOST},
		{0, NONE, LATER, 0, LOST},
		{255, NONE, LATER, 0, LOST},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct wire_header header = {
			.version = WIRE_VERSION, .type = rows[i].type, .fds = rows[i].fds};
		struct iovec parts[2] = {{&header, sizeof(header)}};
		struct fake_egress_cell cell;
		struct text payload = nothing;

		fake_egress_begin(FAKE_EGRESS_USER);
		if (rows[i].after_ready)
			fake_egress_ready();
		cell = fake_egress_cell_new(NULL, CELL_SOCKETS_EGRESS);
		switch ((enum payload)rows[i].payload) {
		case NONE:
			break;
		case READY:
			payload = ready;
			break;
		case DENIED:
			payload = fake_egress_denied(0, 1);
			break;
		case CLOSED:
			payload = fake_egress_closed(0, 1);
			break;
		case ENDED:
			payload = fake_egress_call_ended(9);
			break;
		case FAILED:
			payload = fake_egress_open_failed("no");
			break;
		case FILTERED:
			payload = fake_egress_filtered("10.0.0.0/8");
			break;
		case GARBAGE:
			payload = TEXT_LITERAL("\x00\x00\x00\x00\x0a<script>");
			break;
		}
		header.length = (uint32_t)payload.len;
		header.call = rows[i].type == EGRESS_READY ? 0 : 1;
		parts[1] = (struct iovec){(void *)payload.data, payload.len};
		assert_int_equal(
			writev(egress.channel.out, parts, 2), sizeof(header) + payload.len);
		fake_egress_run();
		if (egress_link_is_ready(egress.link) == rows[i].lost ||
			fake_helper.killed != rows[i].lost)
			fail_msg("row %zu: killed %u times", i, fake_helper.killed);
		if (rows[i].lost) {
			assert_int_equal(egress.told.denied + egress.told.closed, 0);
			assert_null(egress_link_filtered(egress.link));
			fake_egress_leave(); /* with the duplicates that it has not taken */
			assert_true(fake_egress_cell_is_closed(&cell));
		}
		fake_egress_cell_end(&cell);
		fake_egress_end();
	}
}

/* A frame may come in pieces. One that is longer than any, or of another version, ends it. */
TEST(test_headers)
{
	static const struct {
		struct wire_header header;
		bool lost;
	} rows[] = {
		{{.version = WIRE_VERSION, .type = EGRESS_FILTERED, .length = WIRE_PAYLOAD_MAX},
			false},
		{{.version = WIRE_VERSION, .type = EGRESS_FILTERED, .length = WIRE_PAYLOAD_MAX + 1},
			true},
		{{.version = WIRE_VERSION, .type = EGRESS_FILTERED, .length = UINT32_MAX}, true},
		{{.version = WIRE_VERSION + 1, .type = EGRESS_FILTERED, .length = 4}, true},
		{{.version = 0, .type = EGRESS_FILTERED, .length = 4}, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *bytes = (const char *)&rows[i].header;

		fake_egress_begin(FAKE_EGRESS_USER);
		fake_egress_ready();
		for (size_t at = 0; at < sizeof(rows[i].header); at += 4) {
			assert_true(egress_link_is_ready(egress.link));
			assert_int_equal(write(egress.channel.out, bytes + at, 4), 4);
			fake_egress_run();
		}
		assert_int_equal(fake_helper.killed, rows[i].lost);
		fake_egress_end();
	}
}

/* Says a frame without a payload, with one descriptor, which it says belongs to it or not. */
static void send_descriptor(int fd, bool says)
{
	struct wire_header header = {.version = WIRE_VERSION, .type = EGRESS_OPENED, .fds = says};
	struct iovec part = {&header, sizeof(header)};
	union {
		char buffer[CMSG_SPACE(sizeof(fd))];
		struct cmsghdr align;
	} control = {0};
	const struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer)};

	control.align = (struct cmsghdr){CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
	assert_int_equal(sendmsg(egress.channel.out, &message, 0), sizeof(header));
}

/* Descriptors that it sends are closed, on each kernel, whatever the frame says of them. If the
 * kernel does not refuse them, the connection ends. */
TEST(test_no_descriptor_is_taken)
{
	for (unsigned row = 0; row < 4; row++) {
		const bool refuses = row & 1, says = row & 2;
		int ends[2];

		fake_egress_begin(FAKE_EGRESS_SYSTEM);
		fake_fd_closer_refuses = refuses;
		fake_egress_connect(NULL);
		fake_egress_ready();
		assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
		send_descriptor(ends[1], says);
		close(ends[1]);
		fake_egress_run();
		assert_int_equal(read(ends[0], &(char){0}, 1), 0);
		assert_int_equal(egress_link_is_ready(egress.link), refuses && !says);
		close(ends[0]);
		fake_egress_end();
	}
}

/* A connection that cannot be read ends. */
TEST_WITH(test_a_connection_that_cannot_be_read, fake_egress_set_up_system, fake_egress_tear_down)
{
	fake_fd_closer_refuses = false;
	fake_egress_connect(NULL);
	fake_egress_ready();
	fake_fd_closer_error = ENOBUFS;
	fake_egress_say(EGRESS_FILTERED, 0, fake_egress_filtered(""));
	assert_false(egress_link_is_ready(egress.link));
}
