/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tenant of cloisterd's self-test, which no configuration has. */

#include "egress/policy.h"

/**
 * Makes the tenant SELFTEST_EGRESS_TENANT. Each of its rules can match nothing: the host is denied,
 * or is an address that is not opened. So whoever says that a cell is this tenant's gives it no
 * host. Returns 0 or -errno.
 */
int canary_make(struct egress_tenant *ret);

void canary_done(struct egress_tenant *canary);
