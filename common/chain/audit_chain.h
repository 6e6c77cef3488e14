/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The lines of the audit log form a hash chain. Each line is a JSON object:
 *
 *   {"seq":N,"prev":"HASH",...,"hash":"HASH"}
 *
 * seq counts from 1. prev is the hash of the previous line, or 64 zeros in the first line. hash is
 * the SHA-256 (FIPS 180-4), in lower-case hexadecimal, of the line's bytes before `,"hash":`.
 * Anyone who changes, removes, adds or moves a line must therefore rewrite every later line.
 */

#include "common/text.h"

#include <stdint.h>

#define AUDIT_HASH_DIGITS 64
#define AUDIT_HASH_BYTES  32
/* upper bound of the bytes of a line besides its members */
#define AUDIT_FRAME_BYTES 256

/* The state after the last line of a chain. */
struct audit_chain {
	uint64_t seq;
	char hash[AUDIT_HASH_DIGITS + 1];
};

/* The position that a line claims in the chain. */
struct audit_link {
	struct audit_chain self;
	char prev[AUDIT_HASH_DIGITS + 1];
};

/** Returns the state of a chain without lines. */
struct audit_chain audit_chain_new(void);

/**
 * Writes the line that follows @last, with its newline, to @out, which has room for members.len +
 * AUDIT_FRAME_BYTES. @members is JSON without the surrounding braces and without a newline. Returns
 * the line's length; *ret_next is the state for the line after it.
 */
size_t audit_chain_line(const struct audit_chain *last, struct text members, char *out,
	struct audit_chain *ret_next);

/**
 * Reads the position of @line, given without its newline, and checks its hash. Returns 0; -EBADMSG
 * if it does not have the form of a line; -EILSEQ if its hash does not match; *ret then has the
 * line's own values.
 */
int audit_link_read(struct text line, struct audit_link *ret);

/** SHA-256 of data that comes in parts: init, add, end. */
struct audit_digest;
struct audit_digest *audit_digest_new(void);
void audit_digest_add(struct audit_digest *digest, struct text text);
/** Writes the digest in hexadecimal to @hex and frees it. */
void audit_digest_end(struct audit_digest *digest, char hex[static AUDIT_HASH_DIGITS + 1]);
/** Writes the digest to @bytes and frees it. */
void audit_digest_end_bytes(struct audit_digest *digest, uint8_t bytes[static AUDIT_HASH_BYTES]);
