/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's handler of a configuration's lines: config_parts.c (sections and what must hold
 * between settings) and config_value.c (a setting to its field). */

#include "common/config/config_reader.h"
#include "supervisor/config/config.h"
#include "supervisor/config/config_keys.h"

struct accounts;

/* One section of all files together. */
struct config_part {
	void *object; /* struct config_host or struct tenant */
	enum config_section section;
	struct config_place header;
	struct config_place settings[CONFIG_KEYS_MAX]; /* by the key's index in config_keys */
};

/* All sections: the reader's context. */
struct config_parts {
	struct accounts *accounts;
	struct config_part *part; /* that the line belongs to; NULL: of none, or of a wrong one */
	bool in_wrong_section;    /* already complained about, and so not what is in it */
	struct config_part host;
	struct config_part **tenants; /* in the order of the files */
	size_t n_tenants;
};

extern const struct config_handler config_parts_handler;

/** All files are read: checks what must hold between settings, and fills @config. 0 or -errno. */
int config_parts_finish(struct config_reader *reader, struct config *config);

/** Releases the tenants' parts. */
void config_parts_done(struct config_parts *parts);

/** Stores @value in @key's field of the part at hand, or complains. */
void config_value_set(
	struct config_reader *reader, const struct config_key *key, const char *value);

/** As much of @value as a message shows, in whole characters: a precision for "%.*s". */
int config_shown(const char *value);
