/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A digest of what a call does: for the audit log, and for calls with a key, which are the same
 * call if their digests are equal.
 *
 * The digest of a call's arguments is the SHA-256 of its members, sorted by the bytes of their
 * names, each as NAME NUL TYPE LENGTH NUL VALUE. TYPE is "s" for a string, whose VALUE is its
 * UTF-8, and "j" for anything else, whose VALUE is its JSON without white space; LENGTH is the
 * length of VALUE in bytes, in decimal. If options.path_base64 names the file, a member path_base64
 * takes the place of path.
 */

#include "common/chain/audit_chain.h"

struct call_request;

/**
 * Writes the digest of the arguments in hexadecimal. Call it and the next one before
 * call_request_drop_encoded(). Returns 0 or -ENOMEM.
 */
int call_digest(const struct call_request *request, char hex[static AUDIT_HASH_DIGITS + 1]);

/**
 * Fills in the id and the digest of the key of @request, which has one, for the workspace called
 * @workspace. @made_ms: when the workspace was created; 0: every workspace of that name is the
 * same. The digest is of the tool, the arguments, and the options that change what the call does
 * (env, stdin, encoding). Returns 0 or -ENOMEM.
 */
int call_digest_key(struct call_request *request, const char *workspace, int64_t made_ms);

/**
 * Computes the id of @key, a key of the tenant of @request, for that workspace. Returns 0 or
 * -ENOMEM.
 */
int call_digest_key_id(const struct call_request *request, const char *workspace, int64_t made_ms,
	struct text key, uint8_t ret_id[static AUDIT_HASH_BYTES]);
