/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The table of all configuration keys. The parser, the messages of --check, the defaults, the
 * release functions and the manual come from it.
 */

#include "common/config/config_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum config_section { CONFIG_SECTION_HOST, CONFIG_SECTION_TENANT, CONFIG_SECTIONS };

#define CONFIG_CHOICES_MAX 8

struct config_key {
	const char *name;
	uint64_t min, max, fallback; /* for numbers */
	const char *choices[CONFIG_CHOICES_MAX];
	size_t offset;   /* offset in struct config_host or struct tenant */
	uint8_t section; /* enum config_section */
	uint8_t type;    /* enum config_type */
	bool at_start;   /* a reload cannot change it */
};

#define CONFIG_KEYS_MAX 112

extern const struct config_key config_keys[];
extern const size_t config_keys_count;

/** Returns the key called @name in @section, or NULL. */
const struct config_key *config_key_find(enum config_section section, const char *name);

bool config_type_is_list(enum config_type type);

/** Describes the values of @type, for messages and the manual: "a size such as 512M or 4G". */
const char *config_type_form(enum config_type type);

/** Returns the field of @key in @object, a struct config_host or a struct tenant. */
static inline void *config_field(const struct config_key *key, void *object)
{
	return (char *)object + key->offset;
}

/** Sets all fields of @object to the defaults of its section. */
void config_keys_defaults(enum config_section section, void *object);

/** Releases one field and sets it to its default. */
void config_key_reset(const struct config_key *key, void *object);

/** Releases the fields of @object. */
void config_keys_release(enum config_section section, void *object);

/**
 * Whether the two objects have the same value. For keys with at_start, which are strings and
 * numbers.
 */
bool config_key_equal(const struct config_key *key, void *a, void *b);

/** Writes @value in the form of @key's type: "4G", "30s". Returns @buffer. */
const char *config_key_show(
	const struct config_key *key, uint64_t value, char *buffer, size_t size);
