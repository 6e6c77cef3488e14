/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tenants of the self-test. A tenant of the configuration cannot have such a name. */

#define SELFTEST_TENANT ".selftest"
/* Where a tenant of the configuration has a network: its policy is cloister-egress's own. */
#define SELFTEST_EGRESS_TENANT ".selftest-egress"
