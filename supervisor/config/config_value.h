/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses one setting of the configuration into its field. */

#include "supervisor/config/config_parts.h"

/** Stores @value in @key's field of the current section, or complains. */
void config_value_set(
	struct config_reader *reader, const struct config_key *key, const char *value);

/** Whether @key has words of the network; stores their kind. */
bool config_value_egress(const struct config_key *key, enum egress_words *ret_kind);

/** Returns how much of @value a message shows, in whole characters: a precision for "%.*s". */
int config_shown(const char *value);

/** Whether two plain absolute paths are equal, or one contains the other. */
bool config_paths_overlap(const char *a, const char *b);
