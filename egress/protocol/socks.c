// SPDX-License-Identifier: Apache-2.0
/* Runs in cloister-egress. Pure functions on a client's bytes, of which none is trusted. */
#include "egress/protocol/socks.h"

#include <errno.h>

enum {
	COMMAND_CONNECT = 1,
	ADDRESS_IPV4 = 1,
	ADDRESS_NAME = 3,
	ADDRESS_IPV6 = 4,
};

static uint8_t byte_at(struct text bytes, size_t i)
{
	return (uint8_t)bytes.data[i];
}

int socks_greeting_parse(struct text bytes, size_t *ret_len, bool *ret_accepts)
{
	size_t n;

	if (bytes.len > 0 && byte_at(bytes, 0) != SOCKS_VERSION)
		return -EBADMSG;
	if (bytes.len < 2)
		return 0;
	n = byte_at(bytes, 1);
	if (bytes.len < 2 + n)
		return 0;
	*ret_accepts = n > 0 && memchr(bytes.data + 2, SOCKS_NO_AUTHENTICATION, n);
	*ret_len = 2 + n;
	return 1;
}

/* Returns the length of the address, or -EAFNOSUPPORT. */
static int address_length(struct text bytes)
{
	switch (byte_at(bytes, 3)) {
	case ADDRESS_IPV4:
		return 4;
	case ADDRESS_IPV6:
		return 16;
	case ADDRESS_NAME:
		return 1 + byte_at(bytes, 4);
	default:
		return -EAFNOSUPPORT;
	}
}

static void take_host(struct text address, uint8_t type, struct socks_request *request)
{
	struct in6_addr in6;
	struct in_addr in;

	switch (type) {
	case ADDRESS_IPV4:
		memcpy(&in, address.data, sizeof(in));
		request->host = host_from_ipv4(&in);
		request->has_host = true;
		return;
	case ADDRESS_IPV6:
		memcpy(&in6, address.data, sizeof(in6));
		request->host = host_from_ipv6(&in6);
		request->has_host = true;
		return;
	default:
		request->named = (struct text){address.data + 1, address.len - 1};
		request->has_host = host_parse(request->named, &request->host) == 0;
	}
}

int socks_request_parse(struct text bytes, struct socks_request *ret)
{
	struct socks_request request = {0};
	int n;

	if (bytes.len > 0 && byte_at(bytes, 0) != SOCKS_VERSION)
		return -EBADMSG;
	if (bytes.len < 5)
		return 0;
	if (byte_at(bytes, 2) != 0)
		return -EBADMSG;
	n = address_length(bytes);
	if (n < 0)
		return n;
	request.len = 4 + (size_t)n + 2;
	if (bytes.len < request.len)
		return 0;
	request.is_connect = byte_at(bytes, 1) == COMMAND_CONNECT;
	take_host((struct text){bytes.data + 4, (size_t)n}, byte_at(bytes, 3), &request);
	request.port =
		(uint16_t)(byte_at(bytes, request.len - 2) << 8 | byte_at(bytes, request.len - 1));
	request.has_host &= request.port != 0;
	*ret = request;
	return 1;
}

void socks_reply_put(enum socks_reply reply, uint8_t ret[SOCKS_REPLY_BYTES])
{
	memset(ret, 0, SOCKS_REPLY_BYTES);
	ret[0] = SOCKS_VERSION;
	ret[1] = (uint8_t)reply;
	ret[3] = ADDRESS_IPV4;
}
