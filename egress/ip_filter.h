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
 * Appends those of the IPv4 networks in @networks to @refused that the filter refuses in part or
 * whole, as ADDRESS/PREFIX with blanks between, as far as they fit into @size bytes. No packet
 * leaves the host. An address that cannot be tried counts as not refused.
 */
void ip_filter_find(const struct networks *networks, char *refused, size_t size);
