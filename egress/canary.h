/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tenant of cloisterd's self-test, which no configuration has. */

#include "common/egress/rules.h"

/**
 * Makes the rules of the tenant SELFTEST_EGRESS_TENANT. Each can match nothing: the host is denied,
 * or is an address that is not opened. So whoever says that a cell is this tenant's gives it no
 * host. Returns 0 or -errno.
 */
int canary_make(struct rules *ret_allow, struct rules *ret_deny, struct networks *ret_private);
