/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much of the log of cloister-spawner or cloister-egress is about one tenant. Repeated faults
 * of a hostile workspace, or requests of a compromised cloisterd, must neither fill the log nor
 * displace lines about others.
 */

#include "common/text.h"

#include <stdbool.h>

/**
 * Whether a line about @tenant (empty: about none) may be logged, which is counted. It may not be
 * if there are LIMIT_REFUSALS_LOGGED_OF_TENANT, after the last of which the log says so. Names
 * beyond LIMIT_CONFIG_TENANTS are counted together.
 */
bool tenant_log_may(struct text tenant);
