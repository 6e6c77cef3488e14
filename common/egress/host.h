/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A host as clients, rules, TLS and SOCKS name it. This is the only parser of host names. Rules,
 * resolver, TLS and log use its result, so that no two of them read the same bytes differently.
 */

#include "common/limits.h"
#include "common/text.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum host_kind {
	HOST_NAME,
	HOST_IPV4,
	HOST_IPV6,
};

struct host {
	uint8_t kind; /* enum host_kind */
	uint8_t len;
	/*
	 * The one form of this host: lower case, no trailing dot, an address as inet_ntop(3)
	 * writes it, without brackets. A name cannot have the form of an address.
	 */
	char text[LIMIT_EGRESS_HOST_BYTES + 1];
};

/**
 * Parses a name, an IPv4 address in any form that inet_aton(3) takes, or an IPv6 address in
 * brackets. Letters, digits, "-", "_" and "." are valid in a name, which is at most
 * LIMIT_EGRESS_HOST_BYTES long, and labels of 1 to 63 bytes; one dot at its end is dropped. If its
 * last label is a number, decimal or hexadecimal, it is an IPv4 address or invalid. Returns 0 or
 * -EINVAL.
 */
int host_parse(struct text text, struct host *ret);

/**
 * Parses @text as "HOST:PORT"; without ":PORT" the port is @fallback, and 0 means that there must
 * be one. Returns 0 or -EINVAL.
 */
int host_port_parse(struct text text, uint16_t fallback, struct host *ret_host, uint16_t *ret_port);

/** Parses a decimal port from 1 to 65535. Returns 0 or -EINVAL. */
int port_parse(struct text text, uint16_t *ret);

/** Returns the host with the address @address. */
struct host host_from_ipv4(const struct in_addr *address);
struct host host_from_ipv6(const struct in6_addr *address);

/**
 * Returns the socket address of a host that is an address, and its length in @ret_len; the length
 * is 0 for a name.
 */
struct sockaddr_storage host_address(const struct host *host, uint16_t port, socklen_t *ret_len);

/**
 * Whether @host is the machine that names it: localhost and names below it, 127.0.0.0/8, ::1, and
 * 0.0.0.0 and ::, to which connect(2) connects as to these. RFC 6761
 */
bool host_is_loopback(const struct host *host);

static inline struct text host_text(const struct host *host)
{
	return (struct text){host->text, host->len};
}

static inline bool host_equal(const struct host *a, const struct host *b)
{
	return a->kind == b->kind && text_equal(host_text(a), host_text(b));
}
