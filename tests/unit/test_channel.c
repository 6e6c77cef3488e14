// SPDX-License-Identifier: Apache-2.0
/* Frames and descriptors between two processes, and peers that break the protocol. */
#include "common/wire/channel.h"
#include "tests/lib/unit.h"

struct ends {
	struct channel near, far;
};

static int set_up(void **state)
{
	struct ends *ends = calloc(1, sizeof(*ends));
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	channel_init(&ends->near, pair[0], pair[0], CHANNEL_TAKES_FDS);
	channel_init(&ends->far, pair[1], pair[1], CHANNEL_TAKES_FDS);
	*state = ends;
	return 0;
}

static int tear_down(void **state)
{
	struct ends *ends = *state;

	channel_done(&ends->near);
	channel_done(&ends->far);
	free(ends);
	return 0;
}

FIXTURE(set_up, tear_down)

static void send_text(struct channel *channel, uint64_t call, const char *text)
{
	assert_int_equal(channel_send(channel, 1, call, text_from(text), NULL, 0), 0);
}

static int open_null(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static size_t open_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(test_one_write_many_frames_one_read)
{
	struct ends *ends = *state;
	struct channel_frame frame;

	for (uint64_t call = 1; call <= 100; call++)
		send_text(&ends->near, call, "payload");
	assert_int_equal(channel_flush(&ends->near), 0);
	assert_int_equal(channel_fill(&ends->far, WIRE_FRAME_MAX), 1);
	for (uint64_t call = 1; call <= 100; call++) {
		assert_int_equal(channel_next(&ends->far, &frame), 1);
		assert_int_equal(frame.call, call);
		assert_true(text_equal(frame.payload, TEXT_LITERAL("payload")));
	}
	assert_int_equal(channel_next(&ends->far, &frame), 0);
	assert_int_equal(channel_fill(&ends->far, WIRE_FRAME_MAX), -EAGAIN);
}

TEST(test_frame_byte_by_byte)
{
	struct ends *ends = *state;
	struct channel_frame frame;
	int r;

	send_text(&ends->near, 7, "torn");
	assert_int_equal(channel_flush(&ends->near), 0);
	for (size_t i = 0; i < WIRE_HEADER_SIZE + 4; i++) {
		assert_int_equal(channel_next(&ends->far, &frame), 0);
		assert_int_equal(channel_fill(&ends->far, 1), 1);
	}
	r = channel_next(&ends->far, &frame);
	assert_int_equal(r, 1);
	assert_true(text_equal(frame.payload, TEXT_LITERAL("torn")));
}

TEST(test_largest_payload_and_one_more)
{
	static char payload[WIRE_PAYLOAD_MAX + 1];
	struct ends *ends = *state;
	struct channel_frame frame;
	size_t before = open_fds();
	int fd = open_null();

	assert_int_equal(
		channel_send(&ends->near, 1, 1, (struct text){payload, sizeof(payload)}, &fd, 1),
		-EMSGSIZE);
	assert_int_equal(open_fds(), before); /* taken, also on failure */
	assert_int_equal(
		channel_send(&ends->near, 1, 1, (struct text){payload, WIRE_PAYLOAD_MAX}, NULL, 0),
		0);
	assert_int_equal(channel_flush(&ends->near), 0);
	while (channel_next(&ends->far, &frame) == 0)
		assert_int_equal(channel_fill(&ends->far, WIRE_FRAME_MAX), 1);
	assert_int_equal(frame.payload.len, WIRE_PAYLOAD_MAX);
}

TEST(test_descriptors_arrive_with_their_frames)
{
	struct ends *ends = *state;
	struct channel_frame frame;
	int pipes[3][2], r;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(pipe2(pipes[i], O_CLOEXEC), 0);
		send_text(&ends->near, 100, "without");
		assert_int_equal(channel_send(&ends->near, 1, (uint64_t)i, TEXT_LITERAL("with"),
					 pipes[i], 2),
			0);
	}
	assert_int_equal(channel_flush(&ends->near), 0);
	for (int i = 0; i < 6; i++) {
		while ((r = channel_next(&ends->far, &frame)) == 0)
			assert_int_equal(channel_fill(&ends->far, WIRE_FRAME_MAX), 1);
		assert_int_equal(r, 1);
		assert_int_equal(frame.n_fds, i % 2 == 0 ? 0 : 2);
		if (frame.n_fds == 2) {
			char byte = 0;

			assert_int_equal(write(frame.fds[1], "x", 1), 1);
			assert_int_equal(read(frame.fds[0], &byte, 1), 1);
			assert_int_equal(byte, 'x');
			assert_true(fcntl(frame.fds[0], F_GETFD) & FD_CLOEXEC);
		}
		channel_frame_done(&frame);
	}
}

static void send_raw(int fd, const struct wire_header *header, const char *payload, int *fds, int n)
{
	char control[CMSG_SPACE(sizeof(int) * 16)] = {0};
	struct iovec iov[] = {
		{(void *)header, sizeof(*header)}, {(void *)payload, strlen(payload)}};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	struct cmsghdr *c;

	if (n > 0) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n);
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)n);
	}
	assert_true(sendmsg(fd, &message, 0) > 0);
}

/* Sends @header with @n descriptors as raw bytes, and returns the receiver's result. */
static int receive_raw(struct ends *ends, struct wire_header header, const char *payload, int n)
{
	struct channel_frame frame;
	int fds[16], r;

	for (int i = 0; i < n; i++)
		fds[i] = open_null();
	send_raw(ends->near.out, &header, payload, fds, n);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	r = channel_fill(&ends->far, WIRE_FRAME_MAX);
	if (r == 1)
		r = channel_next(&ends->far, &frame);
	if (r == 1) {
		channel_frame_done(&frame);
		r = channel_next(&ends->far, &frame);
	}
	return r;
}

TEST_WITH(test_faults_of_the_peer, NULL, NULL)
{
	static const struct {
		struct wire_header header;
		const char *payload;
		int fds;
	} faults[] = {
		{{.version = WIRE_VERSION + 1}, "", 0},
		{{.version = WIRE_VERSION, .length = WIRE_PAYLOAD_MAX + 1}, "", 0},
		{{.version = WIRE_VERSION, .length = UINT32_MAX}, "", 0},
		{{.version = WIRE_VERSION, .fds = CHANNEL_FDS_MAX + 1}, "", 0},
		{{.version = WIRE_VERSION, .fds = 1}, "", 0}, /* a descriptor is missing */
		{{.version = WIRE_VERSION, .fds = 0}, "", 1}, /* a descriptor too many */
		{{.version = WIRE_VERSION, .fds = 1}, "", 2},
		{{.version = WIRE_VERSION, .fds = 8}, "", 9}, /* more than a message may have */
	};

	for (size_t i = 0; i < ARRAY_SIZE(faults); i++) {
		size_t before = open_fds();
		void *ends;

		set_up(&ends);
		if (receive_raw(ends, faults[i].header, faults[i].payload, faults[i].fds) !=
			-EBADMSG)
			fail_msg("fault %zu was taken", i);
		tear_down(&ends);
		assert_int_equal(open_fds(), before);
	}
}

TEST_WITH(test_a_pipe_carries_no_descriptors, NULL, NULL)
{
	struct channel reader;
	struct channel_frame frame;
	struct wire_header header = {.version = WIRE_VERSION, .fds = 1};
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	channel_init(&reader, ends[0], -1, 0);
	assert_int_equal(write(ends[1], &header, sizeof(header)), sizeof(header));
	assert_int_equal(channel_fill(&reader, WIRE_FRAME_MAX), 1);
	assert_int_equal(channel_next(&reader, &frame), -EBADMSG);
	close(ends[1]);
	channel_done(&reader);
}

TEST(test_hang_up_and_full_socket)
{
	static char payload[WIRE_PAYLOAD_MAX];
	struct ends *ends = *state;
	int r = 0;

	for (int i = 0; i < 64 && r == 0; i++) {
		assert_int_equal(channel_send(&ends->near, 1, 1,
					 (struct text){payload, sizeof(payload)}, NULL, 0),
			0);
		r = channel_flush(&ends->near);
	}
	assert_int_equal(r, -EAGAIN);
	assert_true(channel_waiting(&ends->near) > 0);
	channel_done(&ends->near);
	while ((r = channel_fill(&ends->far, WIRE_FRAME_MAX)) == 1)
		;
	assert_int_equal(r, -EPIPE);
}
