/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Messages of the Connect protocol's streams ("Enveloped-Message" of connectrpc.com/docs/protocol):
 * a byte of flags, the length as 32 bits in network order, and the payload, which is JSON here.
 * Pure functions. The bytes are a client's.
 */

#include "common/text.h"

#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_HEAD_BYTES = 5,
	FRAME_COMPRESSED = 0x01, /* cloister-gate offers no compression, so no client may use it */
	FRAME_END_STREAM = 0x02,
};

/** Writes the head of a message of @len bytes. */
void frame_write_head(unsigned flags, uint32_t len, uint8_t head[static FRAME_HEAD_BYTES]);

/**
 * Takes the first message from the beginning of @input. The payload is borrowed from @input.
 * Returns 1; 0 if the message is not complete yet; -EMSGSIZE if its payload is longer than @max,
 * which the head says before the payload comes; or -EPROTO if a client may not send its flags.
 */
int frame_take(struct text *input, size_t max, struct text *ret_payload);
