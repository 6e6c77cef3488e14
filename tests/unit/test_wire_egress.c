// SPDX-License-Identifier: Apache-2.0
/* Between cloisterd and cloister-egress: cut, longer or impossible payloads are refused. */
#include "common/wire/wire_egress.h"
#include "tests/lib/unit.h"

static uint8_t bytes[1024];

/* Encodes @message as @type and checks that exactly these bytes decode, into @out. */
#define CHECK_ROUND(type, message, out)                                                           \
	do {                                                                                      \
		struct wire_writer writer_ = wire_writer(bytes, sizeof(bytes) - 1);               \
		struct type other_;                                                               \
		type##_put(&writer_, message);                                                    \
		assert_true(wire_writer_ok(&writer_));                                            \
		bytes[writer_.len] = 0;                                                           \
		for (size_t len_ = 0; len_ < writer_.len; len_++)                                 \
			assert_int_equal(type##_get((struct text){(char *)bytes, len_}, &other_), \
				-EBADMSG);                                                        \
		assert_int_equal(                                                                 \
			type##_get((struct text){(char *)bytes, writer_.len + 1}, &other_),       \
			-EBADMSG);                                                                \
		assert_int_equal(type##_get((struct text){(char *)bytes, writer_.len}, out), 0);  \
	} while (0)

#define CHECK_REFUSED(type, message)                                                             \
	do {                                                                                     \
		struct wire_writer writer_ = wire_writer(bytes, sizeof(bytes));                  \
		struct type out_;                                                                \
		type##_put(&writer_, message);                                                   \
		assert_true(wire_writer_ok(&writer_));                                           \
		assert_int_equal(                                                                \
			type##_get((struct text){(char *)bytes, writer_.len}, &out_), -EBADMSG); \
	} while (0)

TEST(test_open)
{
	const struct egress_open good = {.sockets = EGRESS_PROXY | EGRESS_DIAG,
		.tenant = TEXT_LITERAL("dev"),
		.workspace = TEXT_LITERAL("w"),
		.is_narrowed = true,
		.allow = TEXT_LITERAL("a.example:443")};
	struct egress_open bad[6] = {good, good, good, good, good, good}, out;

	CHECK_ROUND(egress_open, &good, &out);
	assert_int_equal(out.sockets, EGRESS_PROXY | EGRESS_DIAG);
	assert_true(text_equal(out.tenant, good.tenant));
	assert_true(text_equal(out.workspace, good.workspace));
	assert_true(out.is_narrowed);
	assert_true(text_equal(out.allow, good.allow));
	bad[0].sockets = EGRESS_DNS;
	bad[1].sockets |= 64;
	bad[2].tenant.len = 0;
	bad[3].tenant = (struct text){"d\0v", 3};
	bad[4].allow = (struct text){"a\0v", 3};
	bad[5].is_narrowed = false;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_REFUSED(egress_open, &bad[i]);
	assert_int_equal(egress_sockets_count(EGRESS_SOCKETS_ALL), EGRESS_SOCKETS);
	assert_int_equal(egress_sockets_count(EGRESS_PROXY), 1);
}

TEST(test_answers)
{
	struct egress_open_failed in = {EACCES, TEXT_LITERAL("why")}, out;
	struct egress_ready ready = {6}, readied;
	struct egress_filtered filtered = {TEXT_LITERAL("10.0.0.0/8 192.168.1.0/24")}, found;

	CHECK_ROUND(egress_open_failed, &in, &out);
	assert_int_equal(out.error, EACCES);
	assert_true(text_equal(out.reason, in.reason));
	in.error = 0;
	CHECK_REFUSED(egress_open_failed, &in);
	CHECK_ROUND(egress_ready, &ready, &readied);
	assert_int_equal(readied.abi, 6);
	CHECK_ROUND(egress_filtered, &filtered, &found);
	assert_true(text_equal(found.networks, filtered.networks));
	filtered.networks = TEXT_LITERAL("10.0.0.0/8\n");
	CHECK_REFUSED(egress_filtered, &filtered);
	filtered.networks = (struct text){"", 0};
	CHECK_ROUND(egress_filtered, &filtered, &found);
}

TEST(test_calls)
{
	struct egress_call in = {7, 0x0102, 99}, out;
	struct egress_call_end end = {7}, ended;
	struct egress_call_ended sums = {1, 2, 3, 4, 5}, summed;

	CHECK_ROUND(egress_call, &in, &out);
	assert_int_equal(out.call, 7);
	assert_int_equal(out.address, 0x0102);
	assert_int_equal(out.cgroup, 99);
	in.call = 0;
	CHECK_REFUSED(egress_call, &in);
	CHECK_ROUND(egress_call_end, &end, &ended);
	assert_int_equal(ended.call, 7);
	end.call = 0;
	CHECK_REFUSED(egress_call_end, &end);
	CHECK_ROUND(egress_call_ended, &sums, &summed);
	assert_int_equal(summed.call, 1);
	assert_int_equal(summed.connections, 2);
	assert_int_equal(summed.denied, 3);
	assert_int_equal(summed.bytes_in, 4);
	assert_int_equal(summed.bytes_out, 5);
	sums.call = 0;
	CHECK_REFUSED(egress_call_ended, &sums);
}

TEST(test_denied)
{
	const struct egress_denied good = {.call = 1,
		.host = TEXT_LITERAL("a.example"),
		.port = 65535,
		.reason = EGRESS_RULE_DENIED,
		.via = EGRESS_VIA_SOCKS,
		.rule = TEXT_LITERAL("*.example")};
	struct egress_denied bad[5] = {good, good, good, good, good}, out;

	CHECK_ROUND(egress_denied, &good, &out);
	assert_int_equal(out.call, 1);
	assert_true(text_equal(out.host, good.host));
	assert_int_equal(out.port, 65535);
	assert_int_equal(out.reason, EGRESS_RULE_DENIED);
	assert_int_equal(out.via, EGRESS_VIA_SOCKS);
	assert_true(text_equal(out.rule, good.rule));
	bad[0].reason = 0;
	bad[1].reason = EGRESS_REASON_END;
	bad[2].via = EGRESS_VIA_END;
	bad[3].host = (struct text){"a\0b", 3};
	bad[4].rule = (struct text){"a\0b", 3};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_REFUSED(egress_denied, &bad[i]);
}

TEST(test_closed)
{
	const struct egress_closed good = {.call = 1,
		.host = TEXT_LITERAL("a.example"),
		.port = 443,
		.via = EGRESS_VIA_CONNECT,
		.reason = EGRESS_LIMIT,
		.bytes_in = 5,
		.bytes_out = 6};
	struct egress_closed bad[3] = {good, good, good}, out;

	CHECK_ROUND(egress_closed, &good, &out);
	assert_int_equal(out.call, 1);
	assert_true(text_equal(out.host, good.host));
	assert_int_equal(out.port, 443);
	assert_int_equal(out.via, EGRESS_VIA_CONNECT);
	assert_int_equal(out.reason, EGRESS_LIMIT);
	assert_int_equal(out.bytes_in, 5);
	assert_int_equal(out.bytes_out, 6);
	bad[0].via = 0;
	bad[1].reason = EGRESS_REASON_END;
	bad[2].host.len = 0;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_REFUSED(egress_closed, &bad[i]);
}

/* A port that does not fit 16 bits is refused, not cut. */
TEST(test_wide_port)
{
	struct wire_writer writer = wire_writer(bytes, sizeof(bytes));
	struct egress_denied out;

	wire_put_u64(&writer, 0);
	wire_put_text(&writer, TEXT_LITERAL("a.example"));
	wire_put_u32(&writer, 65536 + 443);
	wire_put_u8(&writer, EGRESS_PORT);
	wire_put_u8(&writer, EGRESS_VIA_HTTP);
	wire_put_text(&writer, TEXT_LITERAL(""));
	assert_int_equal(
		egress_denied_get((struct text){(char *)bytes, writer.len}, &out), -EBADMSG);
}

TEST(test_names)
{
	for (unsigned i = 1; i < EGRESS_REASON_END; i++)
		assert_non_null(egress_reason_name(i));
	for (unsigned i = 1; i < EGRESS_VIA_END; i++)
		assert_non_null(egress_via_name(i));
	assert_null(egress_reason_name(0));
	assert_null(egress_reason_name(EGRESS_REASON_END));
	assert_null(egress_via_name(EGRESS_VIA_END));
}
