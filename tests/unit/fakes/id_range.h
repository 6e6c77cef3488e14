/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Replaces supervisor/host/id_range.c: the test chooses user mode or system mode. */

#include "supervisor/host/id_range.h"

/* What id_range() returns. NULL, the initial value, means user mode. */
extern const struct id_range *fake_id_range;
/* What id_range_map() returns. */
extern int fake_id_range_mapped;
