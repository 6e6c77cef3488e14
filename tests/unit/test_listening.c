/* links: cloister-supervisor */
/* fakes: clock */
/* SPDX-License-Identifier: Apache-2.0 */

/* Which ports listen, as this machine's kernel says: the sockets are the test's own, in its own
 * network namespace. */

#include "supervisor/workspace/network/listening.h"
#include "tests/lib/unit.h"
#include "tests/unit/fakes/clock.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#define NOBODYS 2 /* inode of no cgroup of a command */

static struct listening *listening;

static int set_up(void **state)
{
	(void)state;
	fake_clock_start();
	fake_clock_pass(1000);
	listening = listening_new(
		socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
	assert_non_null(listening);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	listening_free(listening);
	fake_clock_stop();
	return 0;
}

FIXTURE(set_up, tear_down)

/* Binds a socket and stores its port, if that is 0. Returns -1 if there is no such address. */
static int bind_to(int family, const char *address, uint16_t *port)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} name = {0};
	socklen_t len = family == AF_INET ? sizeof(name.v4) : sizeof(name.v6);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	name.any.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		name.v4.sin_port = htons(*port);
		assert_int_equal(inet_pton(family, address, &name.v4.sin_addr), 1);
	} else {
		name.v6.sin6_port = htons(*port);
		assert_int_equal(inet_pton(family, address, &name.v6.sin6_addr), 1);
		if (fd >= 0)
			assert_int_equal(
				setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)), 0);
	}
	if (fd < 0 || bind(fd, &name.any, len) < 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	assert_int_equal(getsockname(fd, &name.any, &len), 0);
	*port = ntohs(family == AF_INET ? name.v4.sin_port : name.v6.sin6_port);
	return fd;
}

/* What is known of a port counts LIMIT_PORT_ASK_MS. */
static enum listens ask_anew(uint16_t port, uint64_t cgroup)
{
	fake_clock_pass(LIMIT_PORT_ASK_MS);
	return listening_ask(listening, port, cgroup);
}

TEST(test_where_it_listens)
{
	static const struct {
		int family;
		const char *address;
		enum listens listens;
	} rows[] = {
		{AF_INET, "127.0.0.1", LISTENS_AT_IPV4},
		{AF_INET, "0.0.0.0", LISTENS_AT_IPV4},
		{AF_INET, "127.9.9.9", LISTENS_NOT}, /* nobody who asks for localhost comes there */
		{AF_INET6, "::1", LISTENS_AT_IPV6},
		{AF_INET6, "::", LISTENS_AT_IPV6},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint16_t port = 0;
		int fd = bind_to(rows[i].family, rows[i].address, &port);

		if (fd < 0) /* a machine without IPv6 */
			continue;
		assert_int_equal(ask_anew(port, 0), LISTENS_NOT);
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(ask_anew(port, 0), rows[i].listens);
		close(fd);
		assert_int_equal(ask_anew(port, 0), LISTENS_NOT);
	}
}

/* A port that a connection has, and at which nothing listens, is none that listens. */
TEST(test_a_client_is_no_server)
{
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint16_t servers = 0, clients = 0;
	int server = bind_to(AF_INET, "127.0.0.1", &servers),
	    client = bind_to(AF_INET, "127.0.0.1", &clients);

	assert_true(server >= 0 && client >= 0);
	assert_int_equal(listen(server, 1), 0);
	name.sin_port = htons(servers);
	assert_int_equal(connect(client, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(ask_anew(clients, 0), LISTENS_NOT);
	assert_int_equal(ask_anew(servers, 0), LISTENS_AT_IPV4);
	close(client);
	close(server);
}

/* Where the kernel tells cgroups, what another cgroup's process has made does not count. */
TEST(test_whose_it_is)
{
	struct listening_ports all, others;
	uint16_t port = 0;
	int fd = bind_to(AF_INET, "127.0.0.1", &port);
	bool found = false;

	assert_true(fd >= 0 && listen(fd, 1) == 0);
	assert_int_equal(ask_anew(port, 0), LISTENS_AT_IPV4);
	if (ask_anew(port, NOBODYS) == LISTENS_AT_IPV4) {
		close(fd); /* a kernel that does not tell them */
		return;
	}
	assert_int_equal(ask_anew(port, NOBODYS), LISTENS_NOT);
	fake_clock_pass(LIMIT_PORTS_LIST_MS);
	assert_true(listening_list(listening, 0, &all));
	for (size_t i = 0; i < all.n; i++)
		found |= all.ports[i] == port;
	/* A machine with many servers may have it beyond the bound. */
	assert_true(found || all.n == LIMIT_PORTS_LISTED);
	assert_true(listening_list(listening, NOBODYS, &others));
	assert_int_equal(others.n, 0);
	close(fd);
}

/* However often it is asked for, the kernel is asked once in LIMIT_PORT_ASK_MS. */
TEST(test_an_answer_counts_for_a_while)
{
	uint16_t port = 0;
	int fd = bind_to(AF_INET, "127.0.0.1", &port);

	assert_int_equal(ask_anew(port, 0), LISTENS_NOT);
	assert_int_equal(listen(fd, 1), 0);
	fake_clock_pass(LIMIT_PORT_ASK_MS - 1);
	assert_int_equal(listening_ask(listening, port, 0), LISTENS_NOT);
	fake_clock_pass(1);
	assert_int_equal(listening_ask(listening, port, 0), LISTENS_AT_IPV4);
	close(fd);
}

TEST(test_questions_are_bounded)
{
	fake_clock_pass(LIMIT_PORT_ASK_MS);
	for (unsigned i = 0; i < LIMIT_PORT_QUESTIONS; i++)
		assert_int_not_equal(
			listening_ask(listening, (uint16_t)(2000 + i), 0), LISTENS_UNKNOWN);
	assert_int_equal(listening_ask(listening, 3000, 0), LISTENS_UNKNOWN);
	/* What is known is still told. */
	assert_int_not_equal(
		listening_ask(listening, 2000 + LIMIT_PORT_QUESTIONS - 1, 0), LISTENS_UNKNOWN);
	assert_int_not_equal(ask_anew(3000, 0), LISTENS_UNKNOWN);
}

TEST(test_low_ports_are_not_told)
{
	assert_int_equal(ask_anew(0, 0), LISTENS_NOT);
	assert_int_equal(ask_anew(LISTENING_PORT_MIN - 1, 0), LISTENS_NOT);
}

TEST(test_nobody_to_ask)
{
	assert_null(listening_new(-1));
	listening_free(NULL);
}

/* Something else than the kernel's socket: nothing listens, and the list is not known. */
TEST(test_no_answer)
{
	struct listening_ports ports;
	struct listening *deaf;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair), 0);
	deaf = listening_new(pair[0]);
	fake_clock_pass(1000);
	assert_int_equal(listening_ask(deaf, 2000, 0), LISTENS_NOT);
	assert_false(listening_list(deaf, 0, &ports));
	assert_int_equal(ports.n, 0);
	listening_free(deaf);
	close(pair[1]);
}
