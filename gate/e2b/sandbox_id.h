/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ids of sandboxes, and the tokens that open them. An id is 20 lower-case letters and digits, so
 * that it can be part of a host name: the first four tell which tenants it may belong to, the
 * others are random. A token is the id of a key of the gate and a MAC of the sandbox's id and
 * generation. The MAC's secret is the hash that the gate keeps of that key. So no token is stored,
 * and a token ends with its key. Tokens are compared in constant time.
 */

#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	SANDBOX_ID_LETTERS = 20,
	SANDBOX_ID_TENANT_LETTERS = 4,
	SANDBOX_SECRET_BYTES = 32,
	SANDBOX_KEY_LETTERS = 16, /* of the key's id, with which a token begins */
	SANDBOX_TOKEN_LETTERS = SANDBOX_KEY_LETTERS + 64,
	SANDBOX_SIGNATURE_LETTERS = 3 + 43, /* "v1_" and SHA-256 in base64 without padding */
};

/* Of a key of the gate (common/keys/gate_key.h): its id, and the hash that is kept of it. */
struct sandbox_key {
	const char *id; /* of SANDBOX_KEY_LETTERS */
	const uint8_t *secret;
};

enum sandbox_token { SANDBOX_TOKEN_ACCESS, SANDBOX_TOKEN_TRAFFIC };

/** Returns whether @text has the form of an id. */
bool sandbox_id_valid(struct text text);

/** Makes an id of @tenant. Returns 0, or -errno of getrandom(2). */
int sandbox_id_make(struct text tenant, char ret_id[static SANDBOX_ID_LETTERS + 1]);

/**
 * Returns whether @id, which is valid, may be of @tenant. About one in a million ids of other
 * tenants passes, too.
 */
bool sandbox_id_of_tenant(struct text id, struct text tenant);

/** Makes the token of a sandbox. */
void sandbox_token_make(struct sandbox_key key, enum sandbox_token kind, struct text id,
	struct text generation, char ret_token[static SANDBOX_TOKEN_LETTERS + 1]);

/** Returns whether @token is what sandbox_token_make() would make. Takes the same time always. */
bool sandbox_token_fits(struct sandbox_key key, enum sandbox_token kind, struct text id,
	struct text generation, struct text token);

/**
 * Makes the signature of a URL that reads or writes (@operation) the file @path as @user, as E2B's
 * clients make it: of the access token, and of @expiration if that is not empty.
 */
void sandbox_signature_make(struct text path, struct text operation, struct text user,
	struct text token, struct text expiration,
	char ret_signature[static SANDBOX_SIGNATURE_LETTERS + 1]);

/** Returns whether @signature is what sandbox_signature_make() would make, in constant time. */
bool sandbox_signature_fits(struct text path, struct text operation, struct text user,
	struct text token, struct text expiration, struct text signature);
