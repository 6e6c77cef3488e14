// SPDX-License-Identifier: Apache-2.0
/* Used by cloister-egress and cloisterd. Trusts no byte; has no state. RFC 1123, RFC 3986. */
#include "common/egress/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#define LABEL_BYTES 63

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Not isalnum(3), which depends on the locale. */
static bool is_name_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '.';
}

static char lower_host_char(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

int port_parse(struct text text, uint16_t *ret)
{
	uint32_t port = 0;

	if (text.len == 0 || text.len > 5)
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		if (!is_digit(text.data[i]))
			return -EINVAL;
		port = port * 10 + (uint32_t)(text.data[i] - '0');
	}
	if (port == 0 || port > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

static int digit_value(char c)
{
	return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

/* A number as inet_aton(3) reads it: "0x" is hexadecimal, a leading 0 octal. */
static int number_parse(struct text text, uint64_t *ret)
{
	int base = 10;
	uint64_t number = 0;

	if (text.len == 0)
		return -EINVAL;
	if (text.len > 1 && text.data[0] == '0') {
		base = text.data[1] == 'x' ? 16 : 8;
		text.data += base == 16 ? 2 : 1;
		text.len -= base == 16 ? 2 : 1;
	}
	for (size_t i = 0; i < text.len; i++) {
		int value = digit_value(text.data[i]);

		if (value >= base || number > UINT32_MAX)
			return -EINVAL;
		number = number * (uint64_t)base + (uint64_t)value;
	}
	*ret = number;
	return 0;
}

/* One to four numbers; the last one fills all bytes that are left. */
static int ipv4_parse(struct text text, struct host *ret)
{
	uint64_t numbers[4], bits = 0;
	struct in_addr address;
	size_t n = 0;

	do {
		if (n == 4 || number_parse(text_take(&text, '.'), &numbers[n++]) < 0)
			return -EINVAL;
	} while (text.len > 0);
	for (size_t i = 0; i + 1 < n; i++) {
		if (numbers[i] > 255)
			return -EINVAL;
		bits |= numbers[i] << (24 - 8 * i);
	}
	if (numbers[n - 1] >> (32 - 8 * (n - 1)) != 0)
		return -EINVAL;
	address.s_addr = htonl((uint32_t)(bits | numbers[n - 1]));
	*ret = host_from_ipv4(&address);
	return 0;
}

static int ipv6_parse(struct text text, struct host *ret)
{
	char copy[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (text.len < 2 || text.len >= sizeof(copy))
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		char c = lower_host_char(text.data[i]);

		if (digit_value(c) >= 16 && c != ':' && c != '.')
			return -EINVAL;
		copy[i] = c;
	}
	copy[text.len] = '\0';
	if (inet_pton(AF_INET6, copy, &address) != 1)
		return -EINVAL;
	*ret = host_from_ipv6(&address);
	return 0;
}

/* Whether the last label is a number, so that some resolver may take the whole for an address. */
static bool looks_like_address(struct text name)
{
	const char *dot = memrchr(name.data, '.', name.len);
	struct text last = name;
	size_t digits = 0;

	if (dot)
		last = (struct text){dot + 1, (size_t)(name.data + name.len - dot - 1)};
	while (digits < last.len && is_digit(last.data[digits]))
		digits++;
	return digits == last.len || (last.len >= 2 && last.data[0] == '0' && last.data[1] == 'x');
}

static bool has_good_labels(struct text name)
{
	do {
		struct text label = text_take(&name, '.');

		if (label.len == 0 || label.len > LABEL_BYTES)
			return false;
	} while (name.len > 0);
	return true;
}

int host_parse(struct text text, struct host *ret)
{
	struct host host = {.kind = HOST_NAME};

	if (text.len >= 2 && text.data[0] == '[' && text.data[text.len - 1] == ']')
		return ipv6_parse((struct text){text.data + 1, text.len - 2}, ret);
	if (text.len > 1 && text.data[text.len - 1] == '.')
		text.len--;
	if (text.len == 0 || text.len > LIMIT_EGRESS_HOST_BYTES || text.data[text.len - 1] == '.')
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		host.text[i] = lower_host_char(text.data[i]);
		if (!is_name_byte(host.text[i]))
			return -EINVAL;
	}
	host.len = (uint8_t)text.len;
	if (!has_good_labels(host_text(&host)))
		return -EINVAL;
	if (looks_like_address(host_text(&host)))
		return ipv4_parse(host_text(&host), ret);
	*ret = host;
	return 0;
}

int host_port_parse(struct text text, uint16_t fallback, struct host *ret_host, uint16_t *ret_port)
{
	const char *colon = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;
	const char *bracket = text.len > 0 ? memrchr(text.data, ']', text.len) : NULL;
	uint16_t port = fallback;

	if (colon && (!bracket || colon > bracket)) {
		struct text digits = {colon + 1, (size_t)(text.data + text.len - colon - 1)};

		if (port_parse(digits, &port) < 0)
			return -EINVAL;
		text.len = (size_t)(colon - text.data);
	}
	if (port == 0 || host_parse(text, ret_host) < 0)
		return -EINVAL;
	*ret_port = port;
	return 0;
}

static struct host host_from(enum host_kind kind, int family, const void *address)
{
	struct host host = {.kind = (uint8_t)kind};

	inet_ntop(family, address, host.text, sizeof(host.text));
	host.len = (uint8_t)strlen(host.text);
	return host;
}

struct host host_from_ipv4(const struct in_addr *address)
{
	return host_from(HOST_IPV4, AF_INET, address);
}

struct host host_from_ipv6(const struct in6_addr *address)
{
	return host_from(HOST_IPV6, AF_INET6, address);
}

struct sockaddr_storage host_address(const struct host *host, uint16_t port, socklen_t *ret_len)
{
	struct sockaddr_storage storage = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&storage;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;

	*ret_len = 0;
	if (host->kind == HOST_IPV4) {
		*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		inet_pton(AF_INET, host->text, &in->sin_addr);
		*ret_len = sizeof(*in);
	} else if (host->kind == HOST_IPV6) {
		*in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
		inet_pton(AF_INET6, host->text, &in6->sin6_addr);
		*ret_len = sizeof(*in6);
	}
	return storage;
}

bool host_is_loopback(const struct host *host)
{
	static const char name[] = ".localhost";
	const size_t len = sizeof(name) - 1;

	if (host->kind == HOST_IPV4)
		return strncmp(host->text, "127.", 4) == 0 || strcmp(host->text, "0.0.0.0") == 0;
	if (host->kind == HOST_IPV6)
		return strcmp(host->text, "::1") == 0 || strcmp(host->text, "::") == 0;
	return strcmp(host->text, name + 1) == 0 ||
	       (host->len > len && strcmp(host->text + host->len - len, name) == 0);
}
