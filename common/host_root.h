/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/**
 * Whether this process is the host's root: uid 0, and not as a user namespace's name for another
 * id, as in a rootless container. When that cannot be told, it is. credentials(7),
 * user_namespaces(7).
 */
bool host_root_is_us(void);
