// SPDX-License-Identifier: Apache-2.0
/*
 * Used by cloister-gate and cloisterctl. The file is the administrator's, the text of a key a
 * stranger's.
 */
#include "common/keys/gate_key.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define RANDOM_BYTES 20
#define LINE_BYTES   1024

static const char digits[] = "0123456789abcdef";

static void to_hex(const uint8_t *bytes, size_t n, char *hex)
{
	for (size_t i = 0; i < n; i++) {
		hex[2 * i] = digits[bytes[i] >> 4];
		hex[2 * i + 1] = digits[bytes[i] & 15];
	}
	hex[2 * n] = '\0';
}

static bool is_hex(struct text text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!text.data[i] || !strchr(digits, text.data[i]))
			return false;
	return true;
}

static bool from_hex(struct text hex, uint8_t *bytes, size_t n)
{
	if (hex.len != 2 * n || !is_hex(hex))
		return false;
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((strchr(digits, hex.data[2 * i]) - digits) * 16 +
				     (strchr(digits, hex.data[2 * i + 1]) - digits));
	return true;
}

static void hash_gate_key(
	struct text prefix, struct text text, uint8_t ret[static GATE_KEY_HASH_BYTES])
{
	struct sha256_ctx sha256;

	sha256_init(&sha256);
	sha256_update(&sha256, prefix.len, (const uint8_t *)prefix.data);
	sha256_update(&sha256, text.len, (const uint8_t *)text.data);
	sha256_digest(&sha256, GATE_KEY_HASH_BYTES, ret);
}

void gate_key_id(struct text text, char ret_id[static GATE_KEY_ID_DIGITS + 1])
{
	uint8_t digest[GATE_KEY_HASH_BYTES];

	hash_gate_key(TEXT_LITERAL("cloister-gate key id\n"), text, digest);
	to_hex(digest, GATE_KEY_ID_DIGITS / 2, ret_id);
}

bool gate_key_is_text(struct text text)
{
	static const struct text prefix = TEXT_LITERAL(GATE_KEY_PREFIX);

	return text.len == GATE_KEY_LENGTH && memcmp(text.data, prefix.data, prefix.len) == 0 &&
	       is_hex((struct text){text.data + prefix.len, text.len - prefix.len});
}

bool gate_key_matches(const struct gate_key *key, struct text text)
{
	uint8_t digest[GATE_KEY_HASH_BYTES];

	hash_gate_key((struct text){(const char *)key->salt, sizeof(key->salt)}, text, digest);
	return memeql_sec(digest, key->hash, sizeof(digest));
}

int gate_key_make(struct gate_key *key, char ret_text[static GATE_KEY_LENGTH + 1])
{
	uint8_t random[RANDOM_BYTES];
	struct text text = {ret_text, GATE_KEY_LENGTH};

	if (getrandom(random, sizeof(random), 0) != sizeof(random) ||
		getrandom(key->salt, sizeof(key->salt), 0) != sizeof(key->salt))
		return -errno;
	memcpy(ret_text, GATE_KEY_PREFIX, strlen(GATE_KEY_PREFIX));
	to_hex(random, sizeof(random), ret_text + strlen(GATE_KEY_PREFIX));
	explicit_bzero(random, sizeof(random));
	gate_key_id(text, key->id);
	hash_gate_key((struct text){(const char *)key->salt, sizeof(key->salt)}, text, key->hash);
	key->created = (int64_t)time(NULL);
	return 0;
}

bool gate_key_is_word(struct text name, size_t max)
{
	for (size_t i = 0; i < name.len; i++)
		if (!isalnum((unsigned char)name.data[i]) &&
			(!name.data[i] || !strchr("._-@", name.data[i])))
			return false;
	return name.len > 0 && name.len <= max;
}

/* Copies a word, or "" for "*". */
static bool take_gate_key_word(struct text *line, char *to, size_t max, bool may_lack)
{
	struct text word = text_take(line, ' ');

	to[0] = '\0';
	if (may_lack && text_equal(word, TEXT_LITERAL("*")))
		return true;
	if (!gate_key_is_word(word, max))
		return false;
	memcpy(to, word.data, word.len);
	to[word.len] = '\0';
	return true;
}

static bool take_time(struct text *line, int64_t *ret)
{
	struct text word = text_take(line, ' ');

	*ret = 0;
	for (size_t i = 0; i < word.len; i++) {
		if (!isdigit((unsigned char)word.data[i]) || i > 15)
			return false;
		*ret = *ret * 10 + (word.data[i] - '0');
	}
	return word.len > 0;
}

static bool read_key(struct text line, struct gate_key *ret)
{
	struct text id = text_take(&line, ' ');

	if (id.len != GATE_KEY_ID_DIGITS || !is_hex(id))
		return false;
	memcpy(ret->id, id.data, id.len);
	return take_gate_key_word(&line, ret->tenant, LIMIT_CONFIG_NAME_BYTES, false) &&
	       take_gate_key_word(&line, ret->workspace, LIMIT_NAME_BYTES, true) &&
	       take_gate_key_word(&line, ret->name, GATE_KEY_NAME_BYTES, true) &&
	       take_time(&line, &ret->created) && take_time(&line, &ret->expires) &&
	       from_hex(text_take(&line, ' '), ret->salt, sizeof(ret->salt)) &&
	       from_hex(text_take(&line, ' '), ret->hash, sizeof(ret->hash)) && line.len == 0;
}

int gate_keys_parse(struct text content, struct gate_key_list *ret, unsigned *ret_line)
{
	_cleanup_(gate_key_list_done) struct gate_key_list list = {0};
	unsigned number = 0;

	while (content.len > 0) {
		struct text line = text_take(&content, '\n');
		struct gate_key key = {0};
		struct gate_key *grown;

		number++;
		if (line.len == 0 || line.data[0] == '#')
			continue;
		*ret_line = number;
		if (!read_key(line, &key))
			return -EBADMSG;
		if (list.count == LIMIT_GATE_KEYS)
			return -E2BIG;
		grown = reallocarray(list.items, list.count + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		list.items = grown;
		list.items[list.count++] = key;
	}
	*ret = (struct gate_key_list){TAKE_PTR(list.items), list.count};
	return 0;
}

void gate_key_list_done(struct gate_key_list *list)
{
	free(list->items);
	*list = (struct gate_key_list){0};
}

char *gate_keys_write(const struct gate_key_list *list)
{
	size_t size = list->count * LINE_BYTES + LINE_BYTES, len;
	char *content = malloc(size);

	if (!content)
		return NULL;
	len = (size_t)snprintf(
		content, size, "# Keys of cloister-gate. cloisterctl key edits this file.\n");
	for (size_t i = 0; i < list->count; i++) {
		const struct gate_key *key = &list->items[i];
		char salt[2 * sizeof(key->salt) + 1], digest[2 * sizeof(key->hash) + 1];

		to_hex(key->salt, sizeof(key->salt), salt);
		to_hex(key->hash, sizeof(key->hash), digest);
		len += (size_t)snprintf(content + len, size - len,
			"%s %s %s %s %" PRId64 " %" PRId64 " %s %s\n", key->id, key->tenant,
			key->workspace[0] ? key->workspace : "*", key->name[0] ? key->name : "*",
			key->created, key->expires, salt, digest);
	}
	return content;
}
