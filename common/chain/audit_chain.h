/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One line of the audit log and its place in the chain of all of them. A line is a JSON object:
 *
 *   {"seq":N,"prev":"HASH",...,"hash":"HASH"}
 *
 * seq counts from 1; prev is the hash of the line before, 64 zeros where there is none; hash is the
 * SHA-256 (FIPS 180-4), in lower-case hexadecimal, of the line's bytes before `,"hash":`. So
 * whoever changes, takes out, adds or moves a line has to write all later ones anew.
 */

#include "common/text.h"

#include <stdint.h>

#define AUDIT_HASH_DIGITS 64
/* What a line has around its members, at most. */
#define AUDIT_FRAME_BYTES 256

/* The last line of a chain. */
struct audit_chain {
	uint64_t seq;
	char hash[AUDIT_HASH_DIGITS + 1];
};

/* What one line says of its place. */
struct audit_link {
	struct audit_chain self;
	char prev[AUDIT_HASH_DIGITS + 1];
};

/** A chain without a line. */
struct audit_chain audit_chain_new(void);

/**
 * Writes the line that comes after @last: @members, JSON without the braces around it, without a
 * newline in it, and a newline behind it. @out has room for members.len + AUDIT_FRAME_BYTES.
 * Returns its length, and what to write the next line with in *ret_next.
 */
size_t audit_chain_line(const struct audit_chain *last, struct text members, char *out,
	struct audit_chain *ret_next);

/** Reads the place of @line, which is without its newline, and checks its hash. 0; -EBADMSG: it has
 * not the form of a line; -EILSEQ: it has, and is not as it was written; *ret is what it says. */
int audit_link_read(struct text line, struct audit_link *ret);

/** The SHA-256 of parts: init, add, end. */
struct audit_digest;
struct audit_digest *audit_digest_new(void);
void audit_digest_add(struct audit_digest *digest, struct text text);
/** Writes the digest as text and frees it. */
void audit_digest_end(struct audit_digest *digest, char hex[static AUDIT_HASH_DIGITS + 1]);
