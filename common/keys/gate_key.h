/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The keys of cloister-gate: the text that a client sends, and its hash, which is kept. cloisterctl
 * writes the file of keys and cloister-gate reads it. A line is one key:
 *
 * ID TENANT WORKSPACE NAME CREATED EXPIRES SALT HASH
 *
 * WORKSPACE and NAME are "*" if there is none, times are seconds since the epoch, EXPIRES 0 is
 * never. ID stands for the key in lists and logs, and is no part of it. HASH is SHA-256 of SALT and
 * key: a key has 160 random bits, so that no slower hash is needed.
 */

#include "common/limits.h"
#include "common/text.h"

#include <stdbool.h>
#include <stdint.h>

#define GATE_KEY_PREFIX     "e2b_"
#define GATE_KEY_LENGTH     44 /* with the prefix */
#define GATE_KEY_ID_DIGITS  16
#define GATE_KEY_SALT_BYTES 16
#define GATE_KEY_HASH_BYTES 32
#define GATE_KEY_NAME_BYTES 64

struct gate_key {
	char id[GATE_KEY_ID_DIGITS + 1];
	char tenant[LIMIT_CONFIG_NAME_BYTES + 1];
	char workspace[LIMIT_NAME_BYTES + 1]; /* "": any */
	char name[GATE_KEY_NAME_BYTES + 1];   /* "": none */
	int64_t created, expires;
	uint8_t salt[GATE_KEY_SALT_BYTES], hash[GATE_KEY_HASH_BYTES];
};

struct gate_key_list {
	struct gate_key *items;
	size_t count;
};

/** Makes a key of tenant, workspace and name, which are set in @key. Returns 0 or -errno. */
int gate_key_make(struct gate_key *key, char ret_text[static GATE_KEY_LENGTH + 1]);

/** Whether @text has the form of a key. */
bool gate_key_is_text(struct text text);

/** Computes the id of the key @text. */
void gate_key_id(struct text text, char ret_id[static GATE_KEY_ID_DIGITS + 1]);

/** Whether @text is this key. Takes the same time in both cases. */
bool gate_key_matches(const struct gate_key *key, struct text text);

/** Whether @name may name a tenant, workspace or key in the file, of at most @max bytes. */
bool gate_key_is_word(struct text name, size_t max);

/**
 * Reads the content of a file of keys. Returns 0, -EBADMSG with the number of the line that is no
 * key, -E2BIG, or -ENOMEM.
 */
int gate_keys_parse(struct text content, struct gate_key_list *ret, unsigned *ret_line);
void gate_key_list_done(struct gate_key_list *list);

/** Writes @list as the content of a file, malloc'ed; NULL if memory is out. */
char *gate_keys_write(const struct gate_key_list *list);
