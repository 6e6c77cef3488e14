// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_egress.h"

static const char *const reason_names[EGRESS_REASON_END] = {
	[EGRESS_NOT_ALLOWED] = "not_allowed",
	[EGRESS_RULE_DENIED] = "denied",
	[EGRESS_PORT] = "port",
	[EGRESS_PRIVATE_ADDRESS] = "private_address",
	[EGRESS_SNI_MISMATCH] = "sni_mismatch",
	[EGRESS_DNS_FAILED] = "dns_failed",
	[EGRESS_LIMIT] = "limit",
	[EGRESS_UPSTREAM_FAILED] = "upstream_failed",
	[EGRESS_PROXY_LOST] = "proxy_lost",
	[EGRESS_BAD_REQUEST] = "bad_request",
	[EGRESS_UNKNOWN_SECRET] = "unknown_secret",
};

static const char *const via_names[EGRESS_VIA_END] = {
	[EGRESS_VIA_CONNECT] = "connect",
	[EGRESS_VIA_HTTP] = "http",
	[EGRESS_VIA_SOCKS] = "socks",
	[EGRESS_VIA_DNS] = "dns",
	[EGRESS_VIA_TRANSPARENT] = "transparent",
	[EGRESS_VIA_SECRET] = "secret",
};

const char *egress_reason_name(enum egress_reason reason)
{
	return (unsigned)reason < EGRESS_REASON_END ? reason_names[reason] : NULL;
}

const char *egress_via_name(enum egress_via via)
{
	return (unsigned)via < EGRESS_VIA_END ? via_names[via] : NULL;
}

unsigned egress_sockets_count(uint8_t sockets)
{
	return (unsigned)__builtin_popcount(sockets);
}

WIRE_CODEC(egress_open)
{
	wire_u8(codec, &message->sockets);
	wire_name(codec, &message->tenant, LIMIT_CONFIG_NAME_BYTES);
	wire_name(codec, &message->workspace, LIMIT_NAME_BYTES);
	wire_bool(codec, &message->is_narrowed);
	wire_name(codec, &message->allow, LIMIT_EGRESS_NARROWED_BYTES);
	wire_refuse_if(codec, !(message->sockets & EGRESS_PROXY) ||
				      (message->sockets & ~EGRESS_SOCKETS_ALL) ||
				      message->tenant.len == 0 ||
				      (!message->is_narrowed && message->allow.len > 0));
}

WIRE_CODEC(egress_open_failed)
{
	wire_u32(codec, &message->error);
	wire_text(codec, &message->reason, LIMIT_EGRESS_REASON_BYTES);
	wire_refuse_if(codec, message->error == 0);
}

WIRE_CODEC(egress_ready)
{
	wire_u32(codec, &message->abi);
}

WIRE_CODEC(egress_filtered)
{
	static const char bytes[] = "0123456789abcdef.:/ ";

	wire_text(codec, &message->networks, LIMIT_EGRESS_REASON_BYTES - 1);
	for (size_t i = 0; i < message->networks.len; i++)
		if (!memchr(bytes, message->networks.data[i], strlen(bytes)))
			wire_refuse_if(codec, true);
}

WIRE_CODEC(egress_call)
{
	wire_u64(codec, &message->call);
	wire_u16(codec, &message->address);
	wire_u64(codec, &message->cgroup);
	wire_refuse_if(codec, message->call == 0);
}

WIRE_CODEC(egress_call_end)
{
	wire_u64(codec, &message->call);
	wire_refuse_if(codec, message->call == 0);
}

WIRE_CODEC(egress_denied)
{
	wire_u64(codec, &message->call);
	wire_name(codec, &message->host, LIMIT_EGRESS_HOST_BYTES);
	wire_u16(codec, &message->port);
	wire_u8(codec, &message->reason);
	wire_u8(codec, &message->via);
	wire_name(codec, &message->rule, LIMIT_EGRESS_RULE_BYTES);
	wire_refuse_if(
		codec, !egress_reason_name(message->reason) || !egress_via_name(message->via));
}

WIRE_CODEC(egress_closed)
{
	wire_u64(codec, &message->call);
	wire_name(codec, &message->host, LIMIT_EGRESS_HOST_BYTES);
	wire_u16(codec, &message->port);
	wire_u8(codec, &message->via);
	wire_u8(codec, &message->reason);
	wire_u64(codec, &message->bytes_in);
	wire_u64(codec, &message->bytes_out);
	wire_refuse_if(
		codec, !egress_via_name(message->via) ||
			       (message->reason != 0 && !egress_reason_name(message->reason)) ||
			       message->host.len == 0);
}

WIRE_CODEC(egress_call_ended)
{
	wire_u64(codec, &message->call);
	wire_u64(codec, &message->connections);
	wire_u64(codec, &message->denied);
	wire_u64(codec, &message->bytes_in);
	wire_u64(codec, &message->bytes_out);
	wire_refuse_if(codec, message->call == 0);
}
