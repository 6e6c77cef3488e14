/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The sections of the configuration while it is read, and the parser of one setting. */

#include "common/config/config_reader.h"
#include "supervisor/config/config_egress.h"
#include "supervisor/config/config_keys.h"

struct accounts;

/* One section, combined from all files. */
struct config_part {
	void *object; /* struct config_host or struct tenant */
	enum config_section section;
	struct config_place header;
	struct config_place settings[CONFIG_KEYS_MAX]; /* indexed like config_keys */
	struct config_egress egress;
};

/* All sections: the reader's context. */
struct config_parts {
	struct accounts *accounts;
	/* the section of the current line; NULL: none, or an invalid one */
	struct config_part *part;
	bool in_wrong_section; /* the section was complained about, so its lines are ignored */
	struct config_part host;
	struct config_part **tenants; /* in the order of the files */
	size_t n_tenants;
};

/** Stores @value in @key's field of the current section, or complains. */
void config_value_set(
	struct config_reader *reader, const struct config_key *key, const char *value);

/** Whether @key has words of the network; stores their kind. */
bool config_value_egress(const struct config_key *key, enum egress_words *ret_kind);

/** Returns how much of @value a message shows, in whole characters: a precision for "%.*s". */
int config_shown(const char *value);

/** Whether two plain absolute paths are equal, or one contains the other. */
bool config_paths_overlap(const char *a, const char *b);
