/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* cloisterd's handler for the lines of a configuration: sections and checks between settings. */

#include "supervisor/config/config.h"
#include "supervisor/config/config_value.h"

extern const struct config_handler config_parts_handler;

/**
 * Call it when all files are read: checks the settings against each other and fills in @config.
 * Returns 0 or -errno.
 */
int config_parts_finish(struct config_reader *reader, struct config *config);

/** Releases the tenants' sections. */
void config_parts_done(struct config_parts *parts);
