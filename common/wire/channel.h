/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One end of a connection between two of cloister's processes: it sends and receives frames and the
 * descriptors that travel with them. Every process uses this implementation; cloisterd drives it
 * from its event loop, the others from poll(2).
 *
 * One read takes all frames that have arrived, and one write sends all that wait. Descriptors are
 * accepted only with CHANNEL_TAKES_FDS. A frame's header says how many descriptors belong to it; a
 * missing or surplus descriptor is a protocol error of the peer. unix(7), cmsg(3).
 */

#include "common/byte_queue.h"
#include "common/wire/wire.h"

#include <sys/uio.h>

#define CHANNEL_FDS_MAX 9 /* descriptors in one frame */

enum channel_flags {
	CHANNEL_TAKES_FDS = 1, /* @in is a socket whose peer may send descriptors */
};

struct channel {
	int in;  /* read from here, or -1 */
	int out; /* written to, or -1; may be the same descriptor as in */
	enum channel_flags flags;
	/* Like readv(@fd, @iov, 1), for a peer that is not to send descriptors. NULL: read(2) */
	ssize_t (*receive)(int fd, const struct iovec *iov);
	struct byte_queue received;
	/* length of the frame that channel_next returned last, still in received */
	size_t consumed;
	/* descriptors of the frame that is still incomplete, and of the message after it */
	int received_fds[2 * CHANNEL_FDS_MAX];
	unsigned n_received_fds;
	struct byte_queue waiting;
	/*
	 * Closes the descriptors, sent or not, where close(2) may wait: the receiver may have
	 * closed its copies, and other processes may hold a lock. NULL: close(2)
	 */
	void (*close_sent)(void *context, int fd);
	void *context;
	struct channel_parcel *parcels; /* descriptors waiting to be sent, in order */
	size_t n_parcels, size_parcels;
	uint64_t queued_bytes, sent_bytes;
};

struct channel_frame {
	uint8_t type;
	uint64_t call;
	struct text payload; /* borrowed until the next call on the channel */
	int fds[CHANNEL_FDS_MAX];
	unsigned n_fds; /* number of fds, which the caller owns: see channel_frame_done */
};

/**
 * Initialises a channel that owns @in and @out; either may be -1. The caller makes them
 * non-blocking where it needs that.
 */
void channel_init(struct channel *channel, int in, int out, enum channel_flags flags);

/**
 * Closes the descriptors and frees the queues. Does nothing to a zeroed or done channel.
 */
void channel_done(struct channel *channel);

/**
 * Reads once, at most @max bytes. Returns 1 if bytes came, -EAGAIN if none are there now, -EPIPE if
 * the peer has closed its end, or another -errno if the channel is unusable.
 */
int channel_fill(struct channel *channel, size_t max);

/**
 * Returns 1 and the next complete frame in @ret, 0 if there is none yet, or -EBADMSG if the peer
 * broke the protocol and must be dropped.
 */
int channel_next(struct channel *channel, struct channel_frame *ret);

/** Closes the descriptors that the caller has not taken from @frame. */
void channel_frame_done(struct channel_frame *frame);

/**
 * Queues a frame. The channel takes the @n_fds descriptors at @fds (at most CHANNEL_FDS_MAX), also
 * on failure. Returns 0, -EMSGSIZE if @payload is longer than WIRE_PAYLOAD_MAX, or -ENOMEM.
 */
int channel_send(struct channel *channel, uint8_t type, uint64_t call, struct text payload,
	const int *fds, unsigned n_fds);

/**
 * Writes the queued bytes. Returns 0 if all are written, -EAGAIN if some are left, or another
 * -errno if the peer is gone.
 */
int channel_flush(struct channel *channel);

/** Returns the memory that an incomplete frame takes. Valid after channel_next() has returned 0. */
size_t channel_held(const struct channel *channel);

/** Shrinks that memory to the bytes that have arrived. */
void channel_trim_held(struct channel *channel);

/** Drops the bytes that have arrived. The caller reads nothing more from this channel. */
void channel_drop_held(struct channel *channel);

/**
 * Whether @result of channel_flush() means that the kernel lacks a resource for now, so that the
 * caller should try again after CHANNEL_SHORT_PAUSE_MS.
 */
bool channel_is_short(int result);

#define CHANNEL_SHORT_PAUSE_MS 50

/** Returns the memory that the queued, unwritten frames take. */
static inline size_t channel_waiting_memory(const struct channel *channel)
{
	return channel->waiting.len > 0 ? byte_queue_memory(&channel->waiting) : 0;
}

/** Returns the number of bytes that are queued and not yet written. */
static inline size_t channel_waiting(const struct channel *channel)
{
	return channel->waiting.len;
}
