/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bounds how many lines of the log of cloister-spawner or cloister-egress are about one tenant.
 * Repeated faults of a hostile workspace, or requests of a compromised cloisterd, must neither fill
 * the log nor displace lines about others.
 */

#include "common/text.h"

#include <stdbool.h>

/**
 * Whether a line about @tenant (empty: about none) may be logged; if so, it is counted. A tenant
 * has LIMIT_REFUSALS_LOGGED_OF_TENANT lines, after the last of which the log says so. Names beyond
 * LIMIT_CONFIG_TENANTS are counted together.
 */
bool tenant_log_may(struct text tenant);
