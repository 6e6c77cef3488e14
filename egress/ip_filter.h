/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the host's IP filter lets this program reach the networks of egress_private. The
 * packages' unit has such a filter (IPAddressDeny=), to which an administrator's exceptions must be
 * added too.
 */

#include "common/egress/address.h"

#include <stddef.h>

/**
 * Appends to @refused the IPv4 networks of @networks that the filter refuses in whole or in part,
 * as ADDRESS/PREFIX separated by blanks, as far as they fit into @size bytes. No packet leaves the
 * host. An address that cannot be tried counts as not refused.
 */
void ip_filter_find(const struct networks *networks, char *refused, size_t size);
