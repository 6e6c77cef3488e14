// SPDX-License-Identifier: Apache-2.0
/* links: cloister-supervisor */
/* What is counted of a call, and the addresses that calls get, without a cloister-egress. */
#include "common/wire/wire_spawner.h"
#include "supervisor/workspace/network/egress_cell.h"
#include "supervisor/workspace/network/egress_link.h"
#include "tests/lib/unit.h"

static struct egress_denied refusal(const char *host, uint16_t port, uint8_t reason, uint8_t via)
{
	return (struct egress_denied){
		.host = text_from(host), .port = port, .reason = reason, .via = via};
}

TEST(test_kinds_of_refusals)
{
	const struct egress_denied kinds[] = {
		refusal("a.test", 443, EGRESS_NOT_ALLOWED, EGRESS_VIA_CONNECT),
		refusal("b.test", 443, EGRESS_NOT_ALLOWED, EGRESS_VIA_CONNECT),
		refusal("a.test", 80, EGRESS_NOT_ALLOWED, EGRESS_VIA_CONNECT),
		refusal("a.test", 443, EGRESS_PORT, EGRESS_VIA_CONNECT),
		refusal("a.test", 443, EGRESS_NOT_ALLOWED, EGRESS_VIA_SOCKS),
		refusal("", 0, EGRESS_PROXY_LOST, 0),
	};
	struct network_use use = {0};

	for (size_t times = 1; times <= 2; times++)
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			network_use_deny(&use, &kinds[i]);
	assert_int_equal(use.n_denials, ARRAY_SIZE(kinds));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		assert_true(text_equal(text_from(use.denials[i].host), kinds[i].host));
		assert_int_equal(use.denials[i].port, kinds[i].port);
		assert_int_equal(use.denials[i].reason, kinds[i].reason);
		assert_int_equal(use.denials[i].via, kinds[i].via);
		assert_int_equal(use.denials[i].count, 2);
	}
	assert_int_equal(network_use_unlisted(&use), 0);
	network_use_done(&use);
}

TEST(test_lists_are_bounded)
{
	struct network_use use = {0};
	struct network_reached others;
	char host[32];

	for (int i = 0; i < 2 * LIMIT_NETWORK_DENIALS; i++) {
		struct egress_denied denied = {.port = 443, .reason = EGRESS_NOT_ALLOWED};
		struct egress_closed closed = {.port = 443, .bytes_in = 2, .bytes_out = 3};

		snprintf(host, sizeof(host), "h%d.test", i);
		denied.host = closed.host = text_from(host);
		network_use_deny(&use, &denied);
		network_use_close(&use, &closed);
	}
	assert_int_equal(use.n_denials, LIMIT_NETWORK_DENIALS);
	assert_int_equal(use.n_reached, LIMIT_NETWORK_DENIALS);
	assert_int_equal(use.denied, 2 * LIMIT_NETWORK_DENIALS);
	assert_int_equal(network_use_unlisted(&use), LIMIT_NETWORK_DENIALS);
	assert_int_equal(use.connections, 2 * LIMIT_NETWORK_DENIALS);
	assert_int_equal(use.bytes_in, 4 * LIMIT_NETWORK_DENIALS);
	assert_int_equal(use.bytes_out, 6 * LIMIT_NETWORK_DENIALS);
	others = network_use_unlisted_hosts(&use);
	assert_int_equal(others.connections, LIMIT_NETWORK_DENIALS);
	assert_int_equal(others.bytes_in, 2 * LIMIT_NETWORK_DENIALS);
	assert_int_equal(others.bytes_out, 3 * LIMIT_NETWORK_DENIALS);
	network_use_done(&use);
}

/* The sums replace what was counted; refusals that were told remain, whatever the sum says. */
TEST(test_sums)
{
	const struct egress_denied denied = refusal("a.test", 443, EGRESS_PORT, EGRESS_VIA_HTTP);
	struct network_use use = {0};

	for (int i = 0; i < 3; i++)
		network_use_deny(&use, &denied);
	network_use_sum(&use, &(struct egress_call_ended){.denied = 1, .connections = 4});
	assert_int_equal(use.denied, 3);
	assert_int_equal(network_use_unlisted(&use), 0);
	network_use_sum(
		&use, &(struct egress_call_ended){
			      .denied = 5, .connections = 4, .bytes_in = 6, .bytes_out = 7});
	assert_int_equal(network_use_unlisted(&use), 2);
	assert_int_equal(use.connections, 4);
	assert_int_equal(use.bytes_in, 6);
	assert_int_equal(use.bytes_out, 7);
	network_use_done(&use);
}

static struct egress_link *link_without_peer(void)
{
	const struct egress_start start = {.listener = STDERR_FILENO, .uid = getuid()};
	struct egress_link *link;

	assert_int_equal(egress_link_start(&start, &link), 0);
	return link;
}

/* Address 0 means none, and one that a call has is given to no other. */
TEST(test_addresses_of_calls)
{
	struct egress_link *link = link_without_peer();
	int sockets[CELL_SOCKETS_EGRESS];
	struct egress_cell *cell;
	struct network_use first = {0}, second = {0}, other = {0};

	for (size_t i = 0; i < CELL_SOCKETS_EGRESS; i++)
		sockets[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cell = egress_cell_new(
		link, &(struct egress_cell_words){.tenant = "t", .workspace = "w"}, sockets);
	assert_non_null(cell);
	assert_string_equal(egress_cell_tenant(cell), "t");
	assert_string_equal(egress_cell_workspace(cell), "w");
	egress_use_begin(cell, &first, 1);
	egress_use_begin(cell, &second, 2);
	assert_int_equal(first.address, 1);
	assert_int_equal(second.address, 2);
	egress_use_forget(&first);
	for (unsigned address = 3; address <= UINT16_MAX; address++) {
		egress_use_begin(cell, &other, address);
		assert_int_equal(other.address, address);
		assert_false(egress_use_end(&other)); /* cloister-egress was not told of it */
		assert_null(other.cell);
	}
	/* Around: not 0; 1 is free again, and 2 is not. */
	egress_use_begin(cell, &first, UINT64_MAX);
	assert_int_equal(first.address, 1);
	egress_use_begin(cell, &other, UINT64_MAX - 1);
	assert_int_equal(other.address, 3);
	egress_cell_free(cell);
	/* A call that outlives its cell has nothing more to wait for. */
	assert_null(first.cell);
	assert_false(egress_use_end(&first));
	egress_use_forget(&second);
	assert_false(egress_link_is_ready(link));
	egress_link_free(link);
}
