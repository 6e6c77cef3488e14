// SPDX-License-Identifier: Apache-2.0
#include "common/wire/channel.h"

#include "common/cleanup.h"

#include <errno.h>
#include <sys/socket.h>

/* Descriptors to send with the frame that begins at byte @at of the stream. */
struct channel_parcel {
	uint64_t at;
	int fds[CHANNEL_FDS_MAX];
	unsigned n_fds;
};

union fd_control {
	char buffer[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
	struct cmsghdr align;
};

static void close_all(int *fds, unsigned n_fds)
{
	for (unsigned i = 0; i < n_fds; i++)
		close_fd(&fds[i]);
}

void channel_init(struct channel *channel, int in, int out, enum channel_flags flags)
{
	*channel = (struct channel){.in = in, .out = out, .flags = flags};
}

static void close_parcel(const struct channel *channel, struct channel_parcel *parcel)
{
	for (unsigned i = 0; i < parcel->n_fds; i++)
		if (channel->close_sent)
			channel->close_sent(channel->context, parcel->fds[i]);
		else
			close(parcel->fds[i]);
}

void channel_done(struct channel *channel)
{
	for (size_t i = 0; i < channel->n_parcels; i++)
		close_parcel(channel, &channel->parcels[i]);
	free(channel->parcels);
	close_all(channel->received_fds, channel->n_received_fds);
	byte_queue_free(&channel->received);
	byte_queue_free(&channel->waiting);
	if (channel->in >= 0)
		close(channel->in);
	if (channel->out >= 0 && channel->out != channel->in)
		close(channel->out);
	channel_init(channel, -1, -1, 0);
}

/*
 * Takes the descriptors of one received message. Returns -EBADMSG if there are more than a frame
 * may have.
 */
static int take_fds(struct channel *channel, struct msghdr *message)
{
	int result = message->msg_flags & MSG_CTRUNC ? -EBADMSG : 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (channel->n_received_fds < ARRAY_SIZE(channel->received_fds)) {
				channel->received_fds[channel->n_received_fds++] = fd;
			} else {
				close(fd);
				result = -EBADMSG;
			}
		}
	}
	return result;
}

static ssize_t receive_channel(struct channel *channel, char *space, size_t max)
{
	union fd_control control;
	struct iovec iov = {.iov_base = space, .iov_len = max};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.buffer,
		.msg_controllen = sizeof(control.buffer),
	};
	ssize_t n;
	int r;

	if (channel->receive)
		return channel->receive(channel->in, &iov);
	if (!(channel->flags & CHANNEL_TAKES_FDS))
		return read(channel->in, space, max);
	n = recvmsg(channel->in, &message, MSG_CMSG_CLOEXEC);
	if (n < 0)
		return n;
	r = take_fds(channel, &message);
	if (r < 0) {
		errno = -r;
		return -1;
	}
	return n;
}

/* Drops the frame that channel_next() returned last. Its payload was borrowed until now. */
static void drop_consumed(struct channel *channel)
{
	byte_queue_consume(&channel->received, channel->consumed);
	channel->consumed = 0;
}

int channel_fill(struct channel *channel, size_t max)
{
	char *space;
	ssize_t n;
	int r;

	drop_consumed(channel);
	r = byte_queue_reserve(&channel->received, max, &space);
	if (r < 0)
		return r;
	do
		n = receive_channel(channel, space, max);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		r = errno == ECONNRESET ? -EPIPE : -errno;
	else if (n == 0)
		r = -EPIPE;
	else
		r = 1;
	byte_queue_commit(&channel->received, n > 0 ? (size_t)n : 0);
	return r;
}

static int take_frame_fds(struct channel *channel, struct channel_frame *frame, unsigned n)
{
	if (n > channel->n_received_fds)
		return -EBADMSG;
	memcpy(frame->fds, channel->received_fds, n * sizeof(int));
	channel->n_received_fds -= n;
	memmove(channel->received_fds, channel->received_fds + n,
		channel->n_received_fds * sizeof(int));
	frame->n_fds = n;
	return 0;
}

int channel_next(struct channel *channel, struct channel_frame *ret)
{
	struct channel_frame frame = {0};
	struct wire_header header;
	struct text received;

	drop_consumed(channel);
	received = byte_queue_peek(&channel->received);
	if (received.len == 0)
		return channel->n_received_fds > 0 ? -EBADMSG : 0;
	if (received.len < sizeof(header))
		return 0;
	memcpy(&header, received.data, sizeof(header));
	if (header.version != WIRE_VERSION || header.length > WIRE_PAYLOAD_MAX ||
		header.fds > CHANNEL_FDS_MAX)
		return -EBADMSG;
	if (received.len - sizeof(header) < header.length)
		return 0;
	if (take_frame_fds(channel, &frame, header.fds) < 0)
		return -EBADMSG;
	frame.type = header.type;
	frame.call = header.call;
	frame.payload = (struct text){received.data + sizeof(header), header.length};
	channel->consumed = sizeof(header) + header.length;
	*ret = frame;
	return 1;
}

size_t channel_held(const struct channel *channel)
{
	return channel->received.len > 0 ? channel->received.size : 0;
}

void channel_trim_held(struct channel *channel)
{
	byte_queue_trim(&channel->received);
}

void channel_drop_held(struct channel *channel)
{
	channel->consumed = 0;
	byte_queue_free(&channel->received);
}

void channel_frame_done(struct channel_frame *frame)
{
	close_all(frame->fds, frame->n_fds);
	frame->n_fds = 0;
}

static int queue_parcel(struct channel *channel, const int *fds, unsigned n_fds)
{
	struct channel_parcel *parcel;

	if (n_fds == 0)
		return 0;
	if (channel->n_parcels == channel->size_parcels) {
		size_t size = channel->size_parcels ? channel->size_parcels * 2 : 4;
		struct channel_parcel *grown = reallocarray(channel->parcels, size, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		channel->parcels = grown;
		channel->size_parcels = size;
	}
	parcel = &channel->parcels[channel->n_parcels++];
	*parcel = (struct channel_parcel){.at = channel->queued_bytes, .n_fds = n_fds};
	memcpy(parcel->fds, fds, n_fds * sizeof(int));
	return 0;
}

int channel_send(struct channel *channel, uint8_t type, uint64_t call, struct text payload,
	const int *fds, unsigned n_fds)
{
	struct wire_header header = {
		.version = WIRE_VERSION,
		.type = type,
		.fds = (uint16_t)n_fds,
		.length = (uint32_t)payload.len,
		.call = call,
	};
	char *space;
	int r = -EMSGSIZE;

	assert(n_fds <= CHANNEL_FDS_MAX);
	if (payload.len > WIRE_PAYLOAD_MAX)
		goto fail;
	r = byte_queue_reserve(&channel->waiting, sizeof(header) + payload.len, &space);
	if (r < 0)
		goto fail;
	r = queue_parcel(channel, fds, n_fds);
	if (r < 0)
		goto fail;
	memcpy(space, &header, sizeof(header));
	if (payload.len > 0)
		memcpy(space + sizeof(header), payload.data, payload.len);
	byte_queue_commit(&channel->waiting, sizeof(header) + payload.len);
	channel->queued_bytes += sizeof(header) + payload.len;
	return 0;
fail:
	for (unsigned i = 0; i < n_fds; i++)
		close(fds[i]);
	return r;
}

/* Sends @len bytes from @data with the descriptors of @parcel on the first of them. */
static ssize_t send_with_fds(
	int fd, const char *data, size_t len, const struct channel_parcel *parcel)
{
	union fd_control control = {0};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *c;

	message.msg_control = control.buffer;
	message.msg_controllen = CMSG_SPACE(parcel->n_fds * sizeof(int));
	c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(parcel->n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), parcel->fds, parcel->n_fds * sizeof(int));
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static void drop_parcel(struct channel *channel)
{
	close_parcel(channel, channel->parcels);
	channel->n_parcels--;
	memmove(channel->parcels, channel->parcels + 1,
		channel->n_parcels * sizeof(*channel->parcels));
}

/* Writes once: up to the next frame that has descriptors, or that frame with them. */
static ssize_t send_some(struct channel *channel, struct text waiting)
{
	struct channel_parcel *parcel = channel->n_parcels > 0 ? channel->parcels : NULL;
	bool now = parcel && parcel->at == channel->sent_bytes;
	struct channel_parcel *next = now ? (channel->n_parcels > 1 ? parcel + 1 : NULL) : parcel;
	ssize_t n;

	if (next && next->at - channel->sent_bytes < waiting.len)
		waiting.len = next->at - channel->sent_bytes;
	if (!now)
		return write(channel->out, waiting.data, waiting.len);
	n = send_with_fds(channel->out, waiting.data, waiting.len, parcel);
	if (n > 0)
		drop_parcel(channel);
	return n;
}

int channel_flush(struct channel *channel)
{
	while (channel->waiting.len > 0) {
		ssize_t n = send_some(channel, byte_queue_peek(&channel->waiting));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		channel->sent_bytes += (uint64_t)n;
		byte_queue_consume(&channel->waiting, (size_t)n);
	}
	return 0;
}

bool channel_is_short(int result)
{
	/*
	 * ETOOMANYREFS (unix(7)): the user has too many descriptors in flight. In user mode
	 * commands run as the same user, so they can cause it.
	 */
	return result == -ETOOMANYREFS || result == -ENOBUFS || result == -ENOMEM;
}
