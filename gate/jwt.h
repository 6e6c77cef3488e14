/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON Web Tokens (RFC 7519, RFC 8725) that an authorization server signed, and its public keys
 * (JWKS, RFC 7517). No input or output. GnuTLS verifies signatures. Tokens are hostile; the keys
 * are the administrator's.
 */

#include "common/limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

#define JWT_KEY_ID_BYTES  32 /* of a key's identity: SHA-256 of what it is */
#define JWT_SUBJECT_BYTES 32

struct jwt_keys;

/* Which tokens are taken. */
struct jwt_rules {
	const char *issuer, *audience;
	const char *tenant_claim; /* the name of the claim that names the tenant */
};

/* The claims of a verified token. */
struct jwt_bearer {
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	int64_t expires;                    /* seconds since the epoch */
	uint8_t subject[JWT_SUBJECT_BYTES]; /* SHA-256 of issuer, subject and tenant */
	uint8_t key[JWT_KEY_ID_BYTES];      /* of the key that signed it */
};

/**
 * Reads a JWK set. Keys that cannot verify a signature of this module are skipped. Returns NULL
 * with a static sentence in @ret_fault if @content is no such set, has a private key, two keys that
 * a token could mean, or no key that is of use.
 */
struct jwt_keys *jwt_keys_read(struct text content, const char **ret_fault);
void jwt_keys_free(struct jwt_keys *keys);

/** Whether the key @id, of a token's bearer, is one of @keys. */
bool jwt_keys_have(const struct jwt_keys *keys, const uint8_t id[static JWT_KEY_ID_BYTES]);

/** Whether @text has the form of a token: three parts between dots. */
bool jwt_is_text(struct text text);

/**
 * Verifies @token at the time @now. Returns NULL with its @ret_bearer, or the reason why it is not
 * taken, a static phrase.
 */
const char *jwt_check(const struct jwt_keys *keys, const struct jwt_rules *rules, struct text token,
	int64_t now, struct jwt_bearer *ret_bearer);
