/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The shipped sets of hosts (egress/sets), as cloisterd found them at its start. */

#include "common/egress/rules.h"

/**
 * Reads them, before lock-down. A file that cannot be read, or has a mistake, leaves them unknown:
 * cloister-egress, which cannot start with it, says why.
 */
void known_sets_read(void);

/** Returns the sets, in static storage; NULL: they are not known, and any name may be one. */
const struct rule_sets *known_sets(void);
