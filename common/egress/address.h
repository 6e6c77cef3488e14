/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The addresses that workspaces may reach at all, whatever the rules say about names. The caller
 * connects to the very socket address that was checked here.
 */

#include "common/text.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* A network; IPv4 networks are kept as v4-mapped IPv6 ones, with 96 added to the prefix. */
struct network {
	uint8_t bytes[16];
	uint8_t prefix;
};

struct networks {
	struct network *items;
	size_t count;
};

/**
 * Parses "ADDRESS/PREFIX" or "ADDRESS". IPv6 addresses have no brackets here. Returns 0; -EINVAL if
 * it has another form or bits behind the prefix; -EPERM if it contains only metadata addresses,
 * which no exception permits.
 */
int network_parse(struct text text, struct network *ret);

/**
 * Whether a workspace may be connected to @address: it is global unicast, or in one of @private
 * (egress_private) and not one at which a cloud gives metadata and credentials to its machines. An
 * IPv6 address that stands for an IPv4 one (v4-compatible, NAT64, 6to4) must be in one of @private,
 * and the IPv4 address must be permitted by itself. A v4-mapped one never is: the family of an IPv4
 * address is AF_INET.
 */
bool address_permitted(const struct sockaddr *address, const struct networks *private);
