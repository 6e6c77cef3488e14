/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's handler for the lines of a configuration: sections and checks between settings. */

#include "common/config/config_reader.h"
#include "supervisor/config/config.h"
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

extern const struct config_handler config_parts_handler;

/**
 * Call it when all files are read: checks the settings against each other and fills in @config.
 * Returns 0 or -errno.
 */
int config_parts_finish(struct config_reader *reader, struct config *config);

/** Releases the tenants' sections. */
void config_parts_done(struct config_parts *parts);
