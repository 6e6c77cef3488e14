// SPDX-License-Identifier: Apache-2.0
/* Used by cloisterd and cloisterctl. It trusts nothing in a line that it reads. */
#include "common/chain/audit_chain.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct audit_digest {
	struct sha256_ctx sha256;
};

static void finish_audit_hash(struct sha256_ctx *sha256, char hex[static AUDIT_HASH_DIGITS + 1])
{
	uint8_t digest[SHA256_DIGEST_SIZE];

	sha256_digest(sha256, sizeof(digest), digest);
	for (size_t i = 0; i < sizeof(digest); i++) {
		hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
		hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
	}
	hex[AUDIT_HASH_DIGITS] = '\0';
}

static void hash_audit_line(struct text text, char hex[static AUDIT_HASH_DIGITS + 1])
{
	struct sha256_ctx sha256;

	sha256_init(&sha256);
	sha256_update(&sha256, text.len, (const uint8_t *)text.data);
	finish_audit_hash(&sha256, hex);
}

struct audit_digest *audit_digest_new(void)
{
	struct audit_digest *digest = malloc(sizeof(*digest));

	if (digest)
		sha256_init(&digest->sha256);
	return digest;
}

void audit_digest_add(struct audit_digest *digest, struct text text)
{
	sha256_update(&digest->sha256, text.len, (const uint8_t *)text.data);
}

void audit_digest_end(struct audit_digest *digest, char hex[static AUDIT_HASH_DIGITS + 1])
{
	finish_audit_hash(&digest->sha256, hex);
	free(digest);
}

void audit_digest_end_bytes(struct audit_digest *digest, uint8_t bytes[static AUDIT_HASH_BYTES])
{
	sha256_digest(&digest->sha256, AUDIT_HASH_BYTES, bytes);
	free(digest);
}

struct audit_chain audit_chain_new(void)
{
	struct audit_chain chain = {0};

	memset(chain.hash, '0', AUDIT_HASH_DIGITS);
	return chain;
}

#define TAIL_BEGIN ",\"hash\":\""
#define TAIL_BYTES (sizeof(TAIL_BEGIN) - 1 + AUDIT_HASH_DIGITS + 2)

size_t audit_chain_line(const struct audit_chain *last, struct text members, char *out,
	struct audit_chain *ret_next)
{
	size_t len = (size_t)snprintf(out, AUDIT_FRAME_BYTES, "{\"seq\":%llu,\"prev\":\"%s\",",
		(unsigned long long)last->seq + 1, last->hash);
	struct audit_chain next = {.seq = last->seq + 1};

	memcpy(out + len, members.data, members.len);
	len += members.len;
	hash_audit_line((struct text){out, len}, next.hash);
	len += (size_t)snprintf(out + len, TAIL_BYTES + 2, TAIL_BEGIN "%s\"}\n", next.hash);
	*ret_next = next;
	return len;
}

/* Skips @word at the beginning of *rest. Returns 0 or -EBADMSG. */
static int skip(struct text *rest, const char *word)
{
	size_t len = strlen(word);

	if (rest->len < len || memcmp(rest->data, word, len) != 0)
		return -EBADMSG;
	rest->data += len;
	rest->len -= len;
	return 0;
}

static int read_audit_chain_number(struct text *rest, uint64_t *ret)
{
	uint64_t number = 0;
	size_t digits = 0;

	for (; digits < rest->len && rest->data[digits] >= '0' && rest->data[digits] <= '9';
		digits++)
		if (digits >= 19)
			return -EBADMSG;
		else
			number = number * 10 + (uint64_t)(rest->data[digits] - '0');
	if (digits == 0 || rest->data[0] == '0')
		return -EBADMSG;
	rest->data += digits;
	rest->len -= digits;
	*ret = number;
	return 0;
}

static int read_hash(struct text *rest, char ret[static AUDIT_HASH_DIGITS + 1])
{
	if (rest->len < AUDIT_HASH_DIGITS)
		return -EBADMSG;
	for (size_t i = 0; i < AUDIT_HASH_DIGITS; i++)
		if (!memchr("0123456789abcdef", rest->data[i], 16))
			return -EBADMSG;
	memcpy(ret, rest->data, AUDIT_HASH_DIGITS);
	ret[AUDIT_HASH_DIGITS] = '\0';
	rest->data += AUDIT_HASH_DIGITS;
	rest->len -= AUDIT_HASH_DIGITS;
	return 0;
}

int audit_link_read(struct text line, struct audit_link *ret)
{
	struct text head = line, tail = line;
	char computed[AUDIT_HASH_DIGITS + 1];
	struct audit_link link = {0};

	if (skip(&head, "{\"seq\":") < 0 || read_audit_chain_number(&head, &link.self.seq) < 0 ||
		skip(&head, ",\"prev\":\"") < 0 || read_hash(&head, link.prev) < 0 ||
		skip(&head, "\",") < 0 || head.len < TAIL_BYTES)
		return -EBADMSG;
	tail.data += line.len - TAIL_BYTES;
	tail.len = TAIL_BYTES;
	if (skip(&tail, TAIL_BEGIN) < 0 || read_hash(&tail, link.self.hash) < 0 ||
		skip(&tail, "\"}") < 0)
		return -EBADMSG;
	*ret = link;
	hash_audit_line((struct text){line.data, line.len - TAIL_BYTES}, computed);
	return strcmp(computed, link.self.hash) == 0 ? 0 : -EILSEQ;
}
