/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tenant of cloisterd's self-test, which no configuration has. */

#include "common/egress/rules.h"

/**
 * Makes the rules of the tenant SELFTEST_EGRESS_TENANT. No rule allows a host: each names a denied
 * host or an address that is never opened. A cell that is passed off as this tenant's therefore
 * reaches no host. Returns 0 or -errno.
 */
int canary_make(struct rules *ret_allow, struct rules *ret_deny, struct networks *ret_private);
