/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The framing between cloister's processes: a fixed header, then a payload of at most
 * WIRE_PAYLOAD_MAX bytes, written and read through checked put and get functions. Both ends run on
 * one machine and have one version, so integers are in host order. A reader trusts nothing because
 * of that.
 *
 * A writer or reader that would run past its end fails and stays failed; gets then return zeros.
 * One check at the end (wire_writer_ok, wire_reader_end) finds the failure. A length from a peer is
 * checked against the remaining bytes before it is used.
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
	uint8_t type;    /* message type, from the channel's protocol */
	uint16_t fds;    /* number of descriptors that come with this frame */
	uint32_t length; /* length of the payload */
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

/** Returns a writer for the caller's @size bytes at @data. */
struct wire_writer wire_writer(void *data, size_t size);
void wire_put_u8(struct wire_writer *writer, uint8_t value);
void wire_put_u32(struct wire_writer *writer, uint32_t value);
void wire_put_u64(struct wire_writer *writer, uint64_t value);
/** Writes a length of four bytes, then the bytes. */
void wire_put_text(struct wire_writer *writer, struct text text);
/** Whether everything that was put has fitted. */
bool wire_writer_ok(const struct wire_writer *writer);

/** Returns a reader of @len bytes at @data, which must outlive every text read from it. */
struct wire_reader wire_reader(const void *data, size_t len);
uint8_t wire_get_u8(struct wire_reader *reader);
uint32_t wire_get_u32(struct wire_reader *reader);
uint64_t wire_get_u64(struct wire_reader *reader);
/** Reads a boolean. Any byte but 0 and 1 is a failure. */
bool wire_get_bool(struct wire_reader *reader);
/** Reads a text, borrowed from the frame. More than @max bytes are a failure. */
struct text wire_get_text(struct wire_reader *reader, size_t max);
/** Reads all remaining bytes, borrowed. */
struct text wire_get_rest(struct wire_reader *reader);
/** Returns 0 if every get succeeded and no bytes are left, otherwise -EBADMSG. */
int wire_reader_end(const struct wire_reader *reader);
