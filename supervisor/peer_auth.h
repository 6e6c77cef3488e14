/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who a client is, as the kernel says: SO_PEERCRED, unix(7). All of authentication is in here. */

#include <stdbool.h>

/** Whether the peer of the connected socket @fd may use this instance. User mode: exactly the user
 * that it runs as. */
bool peer_auth_allows(int fd);
