/* links: cloister-common */
// SPDX-License-Identifier: Apache-2.0
/*
 * Frames and descriptors from a hostile peer: in pieces cut anywhere, with descriptors on any
 * piece. Each byte arrives exactly once and in order, a peer that breaks the framing is detected,
 * and no descriptor stays open.
 *
 * Input: a list of pieces, each one byte for its length and one for its descriptors, then its
 * bytes.
 */
#include "common/wire/channel.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/* All bytes that the peer sent. */
static char stream[1 << 20];
static size_t stream_len;

static void send_piece(int fd, struct text piece, unsigned n_fds)
{
	union {
		char buffer[CMSG_SPACE(sizeof(int) * 16)];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = (void *)piece.data, .iov_len = piece.len};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (n_fds > 0) {
		struct cmsghdr *c;

		message.msg_control = control.buffer;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		for (unsigned i = 0; i < n_fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &(int){STDERR_FILENO}, sizeof(int));
	}
	CHECK(sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)piece.len);
	memcpy(stream + stream_len, piece.data, piece.len);
	stream_len += piece.len;
}

/* Takes all frames that have arrived. @at is the offset in the stream behind earlier frames. */
static int take_frames(struct channel *channel, size_t *at)
{
	struct channel_frame frame;
	int r;

	while ((r = channel_next(channel, &frame)) > 0) {
		struct wire_header header;

		CHECK(stream_len - *at >= sizeof(header));
		memcpy(&header, stream + *at, sizeof(header));
		CHECK(header.version == WIRE_VERSION && header.type == frame.type);
		CHECK(header.call == frame.call && header.fds == frame.n_fds);
		CHECK(header.length == frame.payload.len);
		CHECK(stream_len - *at - sizeof(header) >= frame.payload.len);
		CHECK(memcmp(stream + *at + sizeof(header), frame.payload.data,
			      frame.payload.len) == 0);
		for (unsigned i = 0; i < frame.n_fds; i++)
			CHECK(fcntl(frame.fds[i], F_GETFD) & FD_CLOEXEC);
		*at += sizeof(header) + frame.payload.len;
		channel_frame_done(&frame);
	}
	return r;
}

static int lowest_free(void)
{
	int fd = dup(STDERR_FILENO);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text rest = fuzz_text(data, size);
	bool takes_fds = fuzz_byte(&rest) & 1;
	int before = lowest_free(), sockets[2], r = 0;
	struct channel channel;
	size_t at = 0;

	if (size > sizeof(stream))
		return -1;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
	channel_init(&channel, sockets[0], -1, takes_fds ? CHANNEL_TAKES_FDS : 0);
	stream_len = 0;
	while (rest.len > 0 && r >= 0) {
		size_t len = (size_t)fuzz_byte(&rest) + 1;
		unsigned n_fds = takes_fds ? fuzz_byte(&rest) & 15 : 0;
		struct text piece = {rest.data, len < rest.len ? len : rest.len};

		if (piece.len == 0)
			break;
		rest.data += piece.len;
		rest.len -= piece.len;
		send_piece(sockets[1], piece, n_fds);
		while (r >= 0 && (r = channel_fill(&channel, 100)) > 0)
			r = take_frames(&channel, &at);
		if (r == -EAGAIN)
			r = 0;
	}
	/* The channel keeps no bytes except the beginning of one frame. */
	if (r == 0) {
		CHECK(stream_len - at == channel.received.len - channel.consumed);
		CHECK(channel.received.len - channel.consumed <= WIRE_FRAME_MAX);
	} else {
		CHECK(r == -EBADMSG);
	}
	channel_done(&channel);
	close(sockets[1]);
	CHECK(lowest_free() == before);
	return 0;
}
