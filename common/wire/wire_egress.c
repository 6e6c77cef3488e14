// SPDX-License-Identifier: Apache-2.0
/* Every get function checks the whole payload. It returns 0, or -EBADMSG with @ret untouched. */
#include "common/wire/wire_egress.h"

#include <errno.h>

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

static bool is_name(struct text name, size_t least)
{
	return name.len >= least && !text_has_nul(name);
}

static uint16_t get_u16(struct wire_reader *reader)
{
	uint32_t value = wire_get_u32(reader);

	reader->failed |= value > UINT16_MAX;
	return (uint16_t)value;
}

void egress_open_put(struct wire_writer *writer, const struct egress_open *message)
{
	wire_put_u8(writer, message->sockets);
	wire_put_text(writer, message->tenant);
	wire_put_text(writer, message->workspace);
	wire_put_u8(writer, message->is_narrowed);
	wire_put_text(writer, message->allow);
}

int egress_open_get(struct text payload, struct egress_open *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_open message;

	message.sockets = wire_get_u8(&reader);
	message.tenant = wire_get_text(&reader, LIMIT_CONFIG_NAME_BYTES);
	message.workspace = wire_get_text(&reader, LIMIT_NAME_BYTES);
	message.is_narrowed = wire_get_bool(&reader);
	message.allow = wire_get_text(&reader, LIMIT_EGRESS_NARROWED_BYTES);
	if (wire_reader_end(&reader) < 0 || !(message.sockets & EGRESS_PROXY) ||
		(message.sockets & ~EGRESS_SOCKETS_ALL) || !is_name(message.tenant, 1) ||
		!is_name(message.workspace, 0) || !is_name(message.allow, 0) ||
		(!message.is_narrowed && message.allow.len > 0))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_open_failed_put(struct wire_writer *writer, const struct egress_open_failed *message)
{
	wire_put_u32(writer, message->error);
	wire_put_text(writer, message->reason);
}

int egress_open_failed_get(struct text payload, struct egress_open_failed *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_open_failed message;

	message.error = wire_get_u32(&reader);
	message.reason = wire_get_text(&reader, LIMIT_EGRESS_REASON_BYTES);
	if (wire_reader_end(&reader) < 0 || message.error == 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_ready_put(struct wire_writer *writer, const struct egress_ready *message)
{
	wire_put_u32(writer, message->abi);
}

int egress_ready_get(struct text payload, struct egress_ready *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_ready message = {.abi = wire_get_u32(&reader)};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_filtered_put(struct wire_writer *writer, const struct egress_filtered *message)
{
	wire_put_text(writer, message->networks);
}

int egress_filtered_get(struct text payload, struct egress_filtered *ret)
{
	static const char bytes[] = "0123456789abcdef.:/ ";
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_filtered message = {
		.networks = wire_get_text(&reader, LIMIT_EGRESS_REASON_BYTES - 1)};

	if (wire_reader_end(&reader) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < message.networks.len; i++)
		if (!memchr(bytes, message.networks.data[i], strlen(bytes)))
			return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_call_put(struct wire_writer *writer, const struct egress_call *message)
{
	wire_put_u64(writer, message->call);
	wire_put_u32(writer, message->address);
	wire_put_u64(writer, message->cgroup);
}

int egress_call_get(struct text payload, struct egress_call *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_call message;

	message.call = wire_get_u64(&reader);
	message.address = get_u16(&reader);
	message.cgroup = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 || message.call == 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_call_end_put(struct wire_writer *writer, const struct egress_call_end *message)
{
	wire_put_u64(writer, message->call);
}

int egress_call_end_get(struct text payload, struct egress_call_end *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_call_end message = {.call = wire_get_u64(&reader)};

	if (wire_reader_end(&reader) < 0 || message.call == 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_denied_put(struct wire_writer *writer, const struct egress_denied *message)
{
	wire_put_u64(writer, message->call);
	wire_put_text(writer, message->host);
	wire_put_u32(writer, message->port);
	wire_put_u8(writer, message->reason);
	wire_put_u8(writer, message->via);
	wire_put_text(writer, message->rule);
}

int egress_denied_get(struct text payload, struct egress_denied *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_denied message;

	message.call = wire_get_u64(&reader);
	message.host = wire_get_text(&reader, LIMIT_EGRESS_HOST_BYTES);
	message.port = get_u16(&reader);
	message.reason = wire_get_u8(&reader);
	message.via = wire_get_u8(&reader);
	message.rule = wire_get_text(&reader, LIMIT_EGRESS_RULE_BYTES);
	if (wire_reader_end(&reader) < 0 || !egress_reason_name(message.reason) ||
		!egress_via_name(message.via) || !is_name(message.host, 0) ||
		!is_name(message.rule, 0))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_closed_put(struct wire_writer *writer, const struct egress_closed *message)
{
	wire_put_u64(writer, message->call);
	wire_put_text(writer, message->host);
	wire_put_u32(writer, message->port);
	wire_put_u8(writer, message->via);
	wire_put_u8(writer, message->reason);
	wire_put_u64(writer, message->bytes_in);
	wire_put_u64(writer, message->bytes_out);
}

int egress_closed_get(struct text payload, struct egress_closed *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_closed message;

	message.call = wire_get_u64(&reader);
	message.host = wire_get_text(&reader, LIMIT_EGRESS_HOST_BYTES);
	message.port = get_u16(&reader);
	message.via = wire_get_u8(&reader);
	message.reason = wire_get_u8(&reader);
	message.bytes_in = wire_get_u64(&reader);
	message.bytes_out = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 || !egress_via_name(message.via) ||
		(message.reason != 0 && !egress_reason_name(message.reason)) ||
		!is_name(message.host, 1))
		return -EBADMSG;
	*ret = message;
	return 0;
}

void egress_call_ended_put(struct wire_writer *writer, const struct egress_call_ended *message)
{
	wire_put_u64(writer, message->call);
	wire_put_u64(writer, message->connections);
	wire_put_u64(writer, message->denied);
	wire_put_u64(writer, message->bytes_in);
	wire_put_u64(writer, message->bytes_out);
}

int egress_call_ended_get(struct text payload, struct egress_call_ended *ret)
{
	struct wire_reader reader = wire_reader(payload.data, payload.len);
	struct egress_call_ended message;

	message.call = wire_get_u64(&reader);
	message.connections = wire_get_u64(&reader);
	message.denied = wire_get_u64(&reader);
	message.bytes_in = wire_get_u64(&reader);
	message.bytes_out = wire_get_u64(&reader);
	if (wire_reader_end(&reader) < 0 || message.call == 0)
		return -EBADMSG;
	*ret = message;
	return 0;
}
