// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in cloister-egress, at start and on reload. A filter of a cgroup, and netfilter, judge a
 * packet when it is sent, on whichever interface, and sendto(2) says EPERM. So it is sent on lo,
 * where nobody takes it. An IPv6 address has no route there: an empty datagram goes where
 * connections would, and no further than to a neighbour. ipv6(7)
 */
#include "egress/ip_filter.h"

#include "common/cleanup.h"
#include "common/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define DISCARD_PORT 9
#define MAPPED_BITS  96 /* before an IPv4 address in a struct network */

static bool is_refused_ipv6(const uint8_t address[static 16])
{
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(DISCARD_PORT)};
	_cleanup_close_ int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	memcpy(&to.sin6_addr, address, sizeof(to.sin6_addr));
	if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &one, sizeof(one)) < 0)
		return false;
	return sendto(fd, "", 0, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno == EPERM;
}

/* Whether an empty datagram to @address is refused. */
static bool is_refused(struct in_addr address)
{
	static const char loopback[] = "lo";
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(DISCARD_PORT), .sin_addr = address};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	/* Without the binding it might leave the host. No router passes on what has a TTL of 1. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, loopback, sizeof(loopback)) < 0 ||
		setsockopt(fd, IPPROTO_IP, IP_TTL, &one, sizeof(one)) < 0)
		return false;
	return sendto(fd, "", 0, 0, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno == EPERM;
}

static bool is_ipv4(const struct network *network)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return network->prefix >= MAPPED_BITS &&
	       memcmp(network->bytes, mapped, sizeof(mapped)) == 0;
}

/* The same for a network of IPv6, whose own address is its routers'. RFC 4291, 2.6.1 */
static bool is_filtered_ipv6(const struct network *network)
{
	uint8_t first[16], last[16];

	for (unsigned i = 0; i < 16; i++) {
		unsigned bits = network->prefix > 8 * i ? network->prefix - 8 * i : 0;
		uint8_t rest = bits >= 8 ? 0 : (uint8_t)(0xff >> bits);

		first[i] = network->bytes[i];
		last[i] = network->bytes[i] | rest;
	}
	first[15] |= network->prefix < 127;
	return is_refused_ipv6(first) || is_refused_ipv6(last);
}

/* Looks at the first and the last address of a host. */
static bool is_filtered_ipv4(const struct network *network)
{
	unsigned prefix = network->prefix - MAPPED_BITS;
	uint32_t rest = prefix == 0 ? UINT32_MAX : ~(UINT32_MAX << (32 - prefix) % 32);
	uint32_t first, last, ends = prefix < 31;

	memcpy(&first, network->bytes + 12, sizeof(first));
	first = ntohl(first);
	/* Those before and behind are the network's own and its broadcast address. */
	last = prefix < 32 ? (first | rest) - ends : first;
	return is_refused((struct in_addr){htonl(first + ends)}) ||
	       is_refused((struct in_addr){htonl(last)});
}

static bool has_word(struct text words, struct text word)
{
	while (words.len > 0)
		if (text_equal(text_take(&words, ' '), word))
			return true;
	return false;
}

void ip_filter_find(const struct networks *networks, char *refused, size_t size)
{
	for (size_t i = 0; i < networks->count; i++) {
		const struct network *network = &networks->items[i];
		char text[INET6_ADDRSTRLEN + 4], address[INET6_ADDRSTRLEN];
		bool ipv4 = is_ipv4(network);
		size_t len = strlen(refused);

		if (len + sizeof(text) + 1 > size)
			return;
		if (ipv4 ? !is_filtered_ipv4(network) : !is_filtered_ipv6(network))
			continue;
		inet_ntop(ipv4 ? AF_INET : AF_INET6, network->bytes + (ipv4 ? 12 : 0), address,
			sizeof(address));
		snprintf(text, sizeof(text), "%s/%u", address,
			(unsigned)(network->prefix - (ipv4 ? MAPPED_BITS : 0)));
		/* Several tenants may have it. */
		if (!has_word(text_from(refused), text_from(text)))
			snprintf(refused + len, size - len, "%s%s", len > 0 ? " " : "", text);
	}
}
