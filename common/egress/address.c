// SPDX-License-Identifier: Apache-2.0
/*
 * Used by cloister-egress and cloisterd. The special ranges are those of the IANA registries "IPv4
 * Special-Purpose Address Space" and "IPv6 Special-Purpose Address Space": RFC 6890.
 */
#include "common/egress/address.h"

#include "common/cleanup.h"
#include "common/egress/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

struct ipv4_range {
	uint32_t first;
	unsigned prefix;
};

#define IPV4(a, b, c, d) \
	(((uint32_t)(a) << 24) | ((uint32_t)(b) << 16) | ((uint32_t)(c) << 8) | (uint32_t)(d))

static const struct ipv4_range special4[] = {
	{IPV4(0, 0, 0, 0), 8},
	{IPV4(10, 0, 0, 0), 8},
	{IPV4(100, 64, 0, 0), 10}, /* carrier-grade NAT */
	{IPV4(127, 0, 0, 0), 8},
	{IPV4(169, 254, 0, 0), 16},
	{IPV4(172, 16, 0, 0), 12},
	{IPV4(192, 0, 0, 0), 24},
	{IPV4(192, 0, 2, 0), 24},
	{IPV4(192, 88, 99, 0), 24}, /* relays of 6to4 */
	{IPV4(192, 168, 0, 0), 16},
	{IPV4(198, 18, 0, 0), 15},
	{IPV4(198, 51, 100, 0), 24},
	{IPV4(203, 0, 113, 0), 24},
	{IPV4(224, 0, 0, 0), 4},
	{IPV4(240, 0, 0, 0), 4},
};

/* Where clouds answer their machines. */
static const struct ipv4_range metadata4[] = {
	{IPV4(169, 254, 169, 0), 24},   /* Amazon, Azure, Google and most others */
	{IPV4(169, 254, 170, 0), 24},   /* credentials of Amazon's containers */
	{IPV4(169, 254, 42, 42), 32},   /* Scaleway */
	{IPV4(100, 100, 100, 200), 32}, /* Alibaba */
	{IPV4(168, 63, 129, 16), 32},   /* Azure's agent, a public address */
	{IPV4(192, 0, 0, 192), 32},     /* Oracle */
	{IPV4(169, 254, 0, 23), 32},    /* Tencent */
};

static const struct network metadata6[] = {
	{{0xfd, 0x00, 0x0e, 0xc2}, 32},             /* Amazon: fd00:ec2::254 and ::23 */
	{{0xfd, 0x20, 0x00, 0xce}, 32},             /* Google: fd20:ce::254 */
	{{0xfd, 0x00, 0x00, 0xc1}, 32},             /* Oracle: fd00:c1::a9fe:a9fe */
	{{0xfd, 0x00, 0x00, 0x42}, 32},             /* Scaleway: fd00:42::42 */
	{{0xfd, 0x00, 0xa9, 0xfe, 0xa9, 0xfe}, 48}, /* Akamai: fd00:a9fe:a9fe::1 */
	/* OpenStack, at every link: fe80::a9fe:a9fe */
	{{0xfe, 0x80, [12] = 0xa9, [13] = 0xfe, [14] = 0xa9, [15] = 0xfe}, 128},
};

/* Global unicast is 2000::/3 without these. */
static const struct network global6 = {{0x20}, 3};
static const struct network special6[] = {
	{{0x20, 0x01, 0x00}, 23},       /* Teredo, ORCHID, and other protocols */
	{{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
	{{0x20, 0x02}, 16},             /* 6to4 */
	{{0x3f, 0xff, 0x00}, 20},       /* documentation */
};

static const struct network mapped = {{[10] = 0xff, [11] = 0xff}, 96};
static const struct network compatible = {{0}, 96};
static const struct network translated = {{[8] = 0xff, [9] = 0xff}, 96}; /* RFC 2765 */
static const struct network nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};
static const struct network nat64_local = {{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48};
static const struct network six_to_four = {{0x20, 0x02}, 16};

static bool is_in(const uint8_t *bytes, const struct network *network)
{
	unsigned whole = network->prefix / 8, rest = network->prefix % 8;
	uint8_t mask = (uint8_t)(0xff << (8 - rest));

	return memcmp(bytes, network->bytes, whole) == 0 &&
	       (rest == 0 || ((bytes[whole] ^ network->bytes[whole]) & mask) == 0);
}

static bool is_in_any(const uint8_t *bytes, const struct network *networks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_in(bytes, &networks[i]))
			return true;
	return false;
}

static bool is_in_ranges(uint32_t address, const struct ipv4_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((address ^ ranges[i].first) >> (32 - ranges[i].prefix)) == 0)
			return true;
	return false;
}

static void map(uint32_t address, uint8_t ret[16])
{
	address = htonl(address);
	memcpy(ret, mapped.bytes, 12);
	memcpy(ret + 12, &address, 4);
}

static bool permitted4(uint32_t address, const struct networks *private)
{
	uint8_t bytes[16];

	map(address, bytes);
	if (is_in_ranges(address, metadata4, ARRAY_SIZE(metadata4)))
		return false;
	return !is_in_ranges(address, special4, ARRAY_SIZE(special4)) ||
	       is_in_any(bytes, private->items, private->count);
}

/* Whether the address stands for an IPv4 one. */
static bool embedded(const uint8_t *bytes, uint32_t *ret)
{
	bool at_end =
		is_in(bytes, &compatible) || is_in(bytes, &translated) || is_in(bytes, &nat64);

	if (!at_end && !is_in(bytes, &six_to_four))
		return false;
	memcpy(ret, bytes + (at_end ? 12 : 2), 4);
	*ret = ntohl(*ret);
	return true;
}

static bool permitted6(const uint8_t *bytes, const struct networks *private)
{
	bool named = is_in_any(bytes, private->items, private->count);
	uint32_t inner;

	/* The length of the prefix in it, and so the place of the IPv4 address, is a local choice.
	 */
	if (is_in(bytes, &nat64_local) || is_in_any(bytes, metadata6, ARRAY_SIZE(metadata6)))
		return false;
	if (is_in(bytes, &mapped))
		return false;
	if (memcmp(bytes, in6addr_loopback.s6_addr, 16) == 0)
		return named;
	if (embedded(bytes, &inner))
		return named && permitted4(inner, private);
	return named ||
	       (is_in(bytes, &global6) && !is_in_any(bytes, special6, ARRAY_SIZE(special6)));
}

bool address_permitted(const struct sockaddr *address, const struct networks *private)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

	if (address->sa_family == AF_INET)
		return permitted4(ntohl(in->sin_addr.s_addr), private);
	return address->sa_family == AF_INET6 && permitted6(in6->sin6_addr.s6_addr, private);
}

static bool has_bits_behind(const struct network *network)
{
	for (unsigned bit = network->prefix; bit < 128; bit++)
		if (network->bytes[bit / 8] & (0x80 >> (bit % 8)))
			return true;
	return false;
}

/* Whether every address of the network is refused whatever an exception says. */
static bool is_never(const struct network *network)
{
	uint32_t first;

	for (size_t i = 0; i < ARRAY_SIZE(metadata6); i++)
		if (network->prefix >= metadata6[i].prefix && is_in(network->bytes, &metadata6[i]))
			return true;
	if (!is_in(network->bytes, &mapped) || network->prefix < 96)
		return false;
	memcpy(&first, network->bytes + 12, 4);
	for (size_t i = 0; i < ARRAY_SIZE(metadata4); i++)
		if (network->prefix - 96u >= metadata4[i].prefix &&
			is_in_ranges(ntohl(first), &metadata4[i], 1))
			return true;
	return false;
}

static int prefix_parse(struct text text, unsigned max, uint8_t *ret)
{
	unsigned prefix = 0;

	if (text.len == 0 || text.len > 3)
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return -EINVAL;
		prefix = prefix * 10 + (unsigned)(text.data[i] - '0');
	}
	if (prefix > max)
		return -EINVAL;
	*ret = (uint8_t)prefix;
	return 0;
}

int network_parse(struct text text, struct network *ret)
{
	bool has_prefix = text.len > 0 && memchr(text.data, '/', text.len);
	struct text address = text_take(&text, '/');
	struct network network = {.prefix = 128};
	char copy[INET6_ADDRSTRLEN];
	uint8_t prefix = 128;

	if (address.len == 0 || address.len >= sizeof(copy) || text_has_nul(address))
		return -EINVAL;
	memcpy(copy, address.data, address.len);
	copy[address.len] = '\0';
	if (inet_pton(AF_INET, copy, network.bytes + 12) == 1) {
		memcpy(network.bytes, mapped.bytes, 12);
		if (has_prefix && prefix_parse(text, 32, &prefix) < 0)
			return -EINVAL;
		network.prefix = (uint8_t)(has_prefix ? prefix + 96 : 128);
	} else {
		if (inet_pton(AF_INET6, copy, network.bytes) != 1 ||
			(has_prefix && prefix_parse(text, 128, &prefix) < 0))
			return -EINVAL;
		network.prefix = prefix;
	}
	if (has_bits_behind(&network))
		return -EINVAL;
	if (is_never(&network))
		return -EPERM;
	*ret = network;
	return 0;
}
