/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The framing that cloister's processes speak among themselves: a fixed header, then a payload of
 * at most WIRE_PAYLOAD_MAX bytes, written and read through checked put and get. Both ends run on
 * one machine and are of one version, so integers are in host order; nothing is trusted because of
 * that.
 *
 * A writer or reader that ran past its end is poisoned: it stays failed, gets return zeros, and the
 * one check at the end (wire_writer_ok, wire_reader_end) tells. No length read from a peer is used
 * before it is checked against what is there.
 */

#include "common/text.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION     1
#define WIRE_FRAME_MAX   65536
#define WIRE_HEADER_SIZE 16
#define WIRE_PAYLOAD_MAX (WIRE_FRAME_MAX - WIRE_HEADER_SIZE)

struct wire_header {
	uint8_t version; /* WIRE_VERSION */
	uint8_t type;    /* of the protocol spoken on this channel */
	uint16_t fds;    /* descriptors that come with this frame */
	uint32_t length; /* of the payload */
	uint64_t call;   /* the call or cell that the frame belongs to; 0: none */
};
static_assert(sizeof(struct wire_header) == WIRE_HEADER_SIZE, "the header has no padding");
static_assert(offsetof(struct wire_header, call) == 8, "the header's layout is fixed");

struct wire_writer {
	uint8_t *data;
	size_t len;
	size_t size;
	bool failed;
};

struct wire_reader {
	const uint8_t *data;
	size_t left;
	bool failed;
};

/** A writer into @size bytes at @data, which the caller keeps. */
struct wire_writer wire_writer(void *data, size_t size);
void wire_put_u8(struct wire_writer *writer, uint8_t value);
void wire_put_u32(struct wire_writer *writer, uint32_t value);
void wire_put_u64(struct wire_writer *writer, uint64_t value);
/** A length of four bytes, then the bytes. */
void wire_put_text(struct wire_writer *writer, struct text text);
/** False when anything put did not fit. */
bool wire_writer_ok(const struct wire_writer *writer);

/** A reader of @len bytes at @data, which must outlive every text got from it. */
struct wire_reader wire_reader(const void *data, size_t len);
uint8_t wire_get_u8(struct wire_reader *reader);
uint32_t wire_get_u32(struct wire_reader *reader);
uint64_t wire_get_u64(struct wire_reader *reader);
/** A boolean: any byte but 0 and 1 fails. */
bool wire_get_bool(struct wire_reader *reader);
/** Borrowed from the frame. Longer than @max bytes fails. */
struct text wire_get_text(struct wire_reader *reader, size_t max);
/** Borrowed: all that is left. */
struct text wire_get_rest(struct wire_reader *reader);
/** 0 when every get succeeded and nothing is left over, otherwise -EBADMSG. */
int wire_reader_end(const struct wire_reader *reader);
