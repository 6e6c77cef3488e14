// SPDX-License-Identifier: Apache-2.0
/* In cloister-gate, which trusts no client. */

#include "gate/e2b/sandbox_id.h"

#include "common/base64.h"

#include <assert.h>
#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <sys/random.h>

static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567"; /* RFC 4648 section 6 */

static_assert(
	SANDBOX_TOKEN_LETTERS == SANDBOX_KEY_LETTERS + 2 * SHA256_DIGEST_SIZE, "a token is a MAC");

bool sandbox_id_valid(struct text text)
{
	if (text.len != SANDBOX_ID_LETTERS)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] == '\0' || strchr(letters, text.data[i]) == NULL)
			return false;
	}
	return true;
}

/* Each part ends with its length, so that no two lists of parts give the same bytes. */
static void mac(const uint8_t *secret, const struct text *parts, size_t n_parts,
	uint8_t ret_mac[static SHA256_DIGEST_SIZE])
{
	struct hmac_sha256_ctx context;

	hmac_sha256_set_key(&context, SANDBOX_SECRET_BYTES, secret);
	for (size_t i = 0; i < n_parts; i++) {
		uint64_t len = parts[i].len;

		hmac_sha256_update(&context, parts[i].len, (const uint8_t *)parts[i].data);
		hmac_sha256_update(&context, sizeof(len), (const uint8_t *)&len);
	}
	hmac_sha256_digest(&context, SHA256_DIGEST_SIZE, ret_mac);
}

static void spell(const uint8_t *bytes, size_t n, char *to)
{
	for (size_t i = 0; i < n; i++)
		to[i] = letters[bytes[i] % 32];
}

/* Every gate spells a tenant alike, since ids outlive the gate's secret. */
static void tenant_letters(struct text tenant, char ret_letters[static SANDBOX_ID_TENANT_LETTERS])
{
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx context;

	sha256_init(&context);
	sha256_update(&context, tenant.len, (const uint8_t *)tenant.data);
	sha256_digest(&context, sizeof(digest), digest);
	spell(digest, SANDBOX_ID_TENANT_LETTERS, ret_letters);
}

int sandbox_id_make(struct text tenant, char ret_id[static SANDBOX_ID_LETTERS + 1])
{
	uint8_t random_bytes[SANDBOX_ID_LETTERS - SANDBOX_ID_TENANT_LETTERS];

	if (getrandom(random_bytes, sizeof(random_bytes), 0) != (ssize_t)sizeof(random_bytes))
		return errno ? -errno : -EIO;
	tenant_letters(tenant, ret_id);
	spell(random_bytes, sizeof(random_bytes), ret_id + SANDBOX_ID_TENANT_LETTERS);
	ret_id[SANDBOX_ID_LETTERS] = '\0';
	return 0;
}

bool sandbox_id_of_tenant(struct text id, struct text tenant)
{
	char expected[SANDBOX_ID_TENANT_LETTERS];

	tenant_letters(tenant, expected);
	return memcmp(id.data, expected, sizeof(expected)) == 0;
}

void sandbox_token_make(struct sandbox_key key, enum sandbox_token kind, struct text id,
	struct text generation, char ret_token[static SANDBOX_TOKEN_LETTERS + 1])
{
	const struct text parts[] = {
		kind == SANDBOX_TOKEN_ACCESS ? TEXT_LITERAL("access") : TEXT_LITERAL("traffic"), id,
		generation};
	uint8_t digest[SHA256_DIGEST_SIZE];

	mac(key.secret, parts, 3, digest);
	memcpy(ret_token, key.id, SANDBOX_KEY_LETTERS);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(ret_token + SANDBOX_KEY_LETTERS + 2 * i, 3, "%02x", digest[i]);
}

static bool same(const char *expected, size_t len, struct text given)
{
	return given.len == len && memeql_sec(expected, given.data, len);
}

bool sandbox_token_fits(struct sandbox_key key, enum sandbox_token kind, struct text id,
	struct text generation, struct text token)
{
	char expected[SANDBOX_TOKEN_LETTERS + 1];

	sandbox_token_make(key, kind, id, generation, expected);
	return same(expected, SANDBOX_TOKEN_LETTERS, token);
}

void sandbox_signature_make(struct text path, struct text operation, struct text user,
	struct text token, struct text expiration,
	char ret_signature[static SANDBOX_SIGNATURE_LETTERS + 1])
{
	const struct text parts[] = {path, operation, user, token, expiration};
	char encoded[(SHA256_DIGEST_SIZE + 2) / 3 * 4];
	uint8_t digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx context;

	sha256_init(&context);
	for (size_t i = 0; i < 5; i++) {
		if (i == 4 && expiration.len == 0)
			break;
		if (i > 0)
			sha256_update(&context, 1, (const uint8_t *)":");
		sha256_update(&context, parts[i].len, (const uint8_t *)parts[i].data);
	}
	sha256_digest(&context, sizeof(digest), digest);
	base64_encode((struct text){(const char *)digest, sizeof(digest)}, encoded);
	snprintf(ret_signature, SANDBOX_SIGNATURE_LETTERS + 1, "v1_%.43s", encoded);
}

bool sandbox_signature_fits(struct text path, struct text operation, struct text user,
	struct text token, struct text expiration, struct text signature)
{
	char expected[SANDBOX_SIGNATURE_LETTERS + 1];

	sandbox_signature_make(path, operation, user, token, expiration, expected);
	return same(expected, SANDBOX_SIGNATURE_LETTERS, signature);
}
