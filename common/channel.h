/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One end of a connection between two of cloister's processes: frames in, frames out, and the
 * descriptors that travel with them. Every process uses this one; cloisterd drives it from its
 * event loop, the others from poll(2).
 *
 * One read takes as many frames as have come and one write sends as many as are waiting.
 * Descriptors come only where they are wanted (CHANNEL_TAKES_FDS); a frame names how many are its
 * own, and one that is missing or left over is a fault of the peer. unix(7), cmsg(3).
 */

#include "common/byte_queue.h"
#include "common/wire.h"

#include <sys/time.h>

#define CHANNEL_FDS_MAX 8 /* a frame's descriptors */

enum channel_flags {
	CHANNEL_TAKES_FDS = 1, /* the reading end is a socket, and its peer may send descriptors */
};

struct channel {
	int in;  /* read here, or -1 */
	int out; /* write here, or -1; may be the same descriptor */
	enum channel_flags flags;
	struct byte_queue received;
	size_t consumed; /* of received: the frame that channel_next gave last */
	/* those of a frame that is not whole yet, and of the message after it */
	int received_fds[2 * CHANNEL_FDS_MAX];
	unsigned n_received_fds;
	struct byte_queue waiting;
	struct channel_parcel *parcels; /* descriptors waiting to be sent, in order */
	size_t n_parcels, size_parcels;
	uint64_t queued_bytes, sent_bytes;
};

struct channel_frame {
	uint8_t type;
	uint64_t call;
	struct text payload; /* borrowed until the next channel call */
	int fds[CHANNEL_FDS_MAX];
	unsigned n_fds; /* owned by the caller: channel_frame_done */
};

/** A channel that owns @in and @out, either of which may be -1. Both are expected to be
 * non-blocking where they must be. */
void channel_init(struct channel *channel, int in, int out, enum channel_flags flags);

/** Closes the descriptors and frees the queues. A zeroed or done channel is left alone. */
void channel_done(struct channel *channel);

/**
 * Reads once, at most @max bytes. 1: something came. -EAGAIN: nothing now. -EPIPE: the peer is
 * gone. Any other -errno: the channel is unusable.
 */
int channel_fill(struct channel *channel, size_t max);

/** 1 and the next whole frame in @ret; 0: none yet; -EBADMSG: the peer breaks the protocol, drop
 * it. */
int channel_next(struct channel *channel, struct channel_frame *ret);

/** Closes the descriptors that are still in @frame. */
void channel_frame_done(struct channel_frame *frame);

/**
 * Queues a frame. @fds (at most CHANNEL_FDS_MAX, n_fds of them) belong to the channel from here on,
 * also on failure. -EMSGSIZE: @payload is over WIRE_PAYLOAD_MAX. -ENOMEM.
 */
int channel_send(struct channel *channel, uint8_t type, uint64_t call, struct text payload,
	const int *fds, unsigned n_fds);

/** Writes what is queued. 0: all is written; -EAGAIN: some is left; another -errno: the peer is
 * gone. */
int channel_flush(struct channel *channel);

/** Memory of a frame that has begun to come and is not whole; after channel_next has said 0. */
size_t channel_held(const struct channel *channel);

/** That memory is no larger than what has come. */
void channel_trim_held(struct channel *channel);

/** Forgets what has come. Nothing more is to be read. */
void channel_drop_held(struct channel *channel);

/** Whether @result of channel_flush says that the kernel is short of something, and trying again
 * later may help. */
bool channel_is_short(int result);

/** How much later. */
extern const struct timeval channel_short_pause;

/** Memory that those take which are queued and not yet written. */
static inline size_t channel_waiting_memory(const struct channel *channel)
{
	return channel->waiting.len > 0 ? byte_queue_memory(&channel->waiting) : 0;
}

/** Bytes queued and not yet written. */
static inline size_t channel_waiting(const struct channel *channel)
{
	return channel->waiting.len;
}
