/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* In place of supervisor/host/id_range.c: user mode or system mode, as the test says. */

#include "supervisor/host/id_range.h"

/* What id_range() says: NULL, as at first: user mode. */
extern const struct id_range *fake_id_range;
/* What id_range_map() returns. */
extern int fake_id_range_mapped;
