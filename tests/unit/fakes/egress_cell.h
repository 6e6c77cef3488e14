/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces what calls use of supervisor/workspace/network/egress_link.c. */

#include "supervisor/workspace/network/egress_cell.h"

/** cloister-egress has told all about the call that waits for it. */
void fake_egress_sum(void);
