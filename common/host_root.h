/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

/**
 * Whether this process is root of the host: its uid is 0, and that 0 is not another id of the host
 * mapped by a user namespace, as in a rootless container. True if that cannot be found out.
 * credentials(7), user_namespaces(7).
 */
bool host_root_is_us(void);
