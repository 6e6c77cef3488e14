/* links: cloister-egress-rules */
// SPDX-License-Identifier: Apache-2.0
/* Hosts: each spelling has one form or is refused; and which addresses are permitted. */
#include "common/egress/address.h"
#include "common/egress/host.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>

static void check_host(const char *written, const char *expected)
{
	struct host host;
	int r = host_parse(text_from(written), &host);

	if (!expected) {
		if (r != -EINVAL)
			fail_msg("\"%s\" is taken for \"%s\"", written, host.text);
		return;
	}
	if (r < 0)
		fail_msg("\"%s\" is refused", written);
	assert_string_equal(host.text, expected);
	assert_int_equal(host.len, strlen(expected));
}

TEST(test_names)
{
	static const char *const forms[][2] = {
		{"example.com", "example.com"},
		{"EXAMPLE.Com", "example.com"},
		{"example.com.", "example.com"},
		{"a_b-c.example", "a_b-c.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"localhost", "localhost"},
		{"1e100.net", "1e100.net"},
		{"10.example", "10.example"},
		{"example.com..", NULL},
		{".", NULL},
		{"", NULL},
		{".example.com", NULL},
		{"a..b", NULL},
		{"a b", NULL},
		{"a%2eb", NULL},
		{"a/b", NULL},
		{"a@b", NULL},
		{"a:b", NULL},
		{"a\tb", NULL},
		{"a\xc2\xad.example", NULL},
		{"b\xc3\xbc"
		 "cher.example",
			NULL},
		{"a*.example", NULL},
		{"[example.com]", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		check_host(forms[i][0], forms[i][1]);
}

TEST(test_loopback)
{
	static const struct {
		const char *host;
		bool is_loopback;
	} rows[] = {
		{"localhost", true},
		{"LOCALHOST.", true},
		{"a.localhost", true},
		{"127.0.0.1", true},
		{"127.1", true},
		{"0", true},
		{"0.0.0.0", true},
		{"[::1]", true},
		{"[::]", true},
		{"notlocalhost", false},
		{"localhost.example", false},
		{"128.0.0.1", false},
		{"0.0.0.1", false},
		{"[::2]", false},
		{"127.example", false},
	};
	struct host host;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (host_parse(text_from(rows[i].host), &host) < 0 ||
			host_is_loopback(&host) != rows[i].is_loopback)
			fail_msg("%s", rows[i].host);
}

TEST(test_lengths)
{
	char name[300], label[64];
	struct host host;

	memset(label, 'a', 63);
	label[63] = '\0';
	snprintf(name, sizeof(name), "%s.%s.%s.%.61s", label, label, label, label);
	check_host(name, name);
	strcat(name, "b");
	check_host(name, NULL);
	snprintf(name, sizeof(name), "%sa.example", label);
	check_host(name, NULL);
	assert_int_equal(host_parse((struct text){"a\0b.example", 11}, &host), -EINVAL);
	assert_int_equal(host_parse((struct text){NULL, 0}, &host), -EINVAL);
}

TEST(test_addresses)
{
	static const char *const forms[][2] = {
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.1.", "127.0.0.1"},
		{"127.1", "127.0.0.1"},
		{"2130706433", "127.0.0.1"},
		{"0x7f000001", "127.0.0.1"},
		{"0X7F.0.0.1", "127.0.0.1"},
		{"0177.0.0.01", "127.0.0.1"},
		{"017700000001", "127.0.0.1"},
		{"0", "0.0.0.0"},
		{"0x", "0.0.0.0"},
		{"169.254.43518", "169.254.169.254"},
		{"4294967295", "255.255.255.255"},
		{"4294967296", NULL},
		{"1.2.3.256", NULL},
		{"1.2.3.4.5", NULL},
		{"256.1.1.1", NULL},
		{"1.2.65536", NULL},
		{"1.2.65535", "1.2.255.255"},
		{"08.1.1.1", NULL},
		{"1..2", NULL},
		{"example.1", NULL},
		{"example.0x1f", NULL},
		{"example.0xg", NULL},
		{"99999999999999999999", NULL},
		{"[::1]", "::1"},
		{"[0:0:0:0:0:0:0:1]", "::1"},
		{"[::FFFF:10.0.0.1]", "::ffff:10.0.0.1"},
		{"[::ffff:0a00:1]", "::ffff:10.0.0.1"},
		{"[64:ff9b::a9fe:a9fe]", "64:ff9b::a9fe:a9fe"},
		{"::1", NULL},
		{"[::1", NULL},
		{"[::1%lo]", NULL},
		{"[]", NULL},
		{"[::1].", NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		check_host(forms[i][0], forms[i][1]);
}

TEST(test_ports)
{
	static const char *const bad[] = {"a:0", "a:65536", "a:", "a:+1", "a: 1", "a:1x",
		"a:000080", "::1:80", "[::1]80", ":80", "a:80:80"};
	struct host host;
	uint16_t port;

	assert_int_equal(host_port_parse(text_from("A.example:0443"), 0, &host, &port), 0);
	assert_string_equal(host.text, "a.example");
	assert_int_equal(port, 443);
	assert_int_equal(host_port_parse(text_from("[::1]:1"), 0, &host, &port), 0);
	assert_string_equal(host.text, "::1");
	assert_int_equal(port, 1);
	assert_int_equal(host_port_parse(text_from("[::1]"), 80, &host, &port), 0);
	assert_int_equal(port, 80);
	assert_int_equal(host_port_parse(text_from("a"), 0, &host, &port), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (host_port_parse(text_from(bad[i]), 80, &host, &port) != -EINVAL)
			fail_msg("\"%s\" is taken", bad[i]);
}

/* Whether the address, with the given networks as exceptions, is permitted. */
static bool permitted(const char *written, const char *const *networks)
{
	struct network items[8];
	struct networks private = {items, 0};
	struct sockaddr_storage address;
	struct host host;
	socklen_t len;

	for (; networks && *networks; networks++)
		assert_int_equal(network_parse(text_from(*networks), &items[private.count++]), 0);
	assert_int_equal(host_parse(text_from(written), &host), 0);
	address = host_address(&host, 80, &len);
	assert_true(len > 0);
	return address_permitted((struct sockaddr *)&address, &private);
}

TEST(test_public)
{
	static const char *const public[] = {"1.1.1.1", "9.255.255.255", "11.0.0.0",
		"100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255",
		"172.32.0.0", "192.0.1.0", "192.167.255.255", "198.17.255.255", "198.20.0.0",
		"223.255.255.255", "[2606:4700::1111]", "[2001:200::1]", "[2a00::1]", "[3ffe::1]"};
	static const char *const special[] = {"0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255",
		"100.64.0.0", "100.127.255.255", "127.0.0.1", "127.255.255.255", "169.254.0.1",
		"169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.1", "192.0.2.1",
		"192.88.99.1", "192.168.0.0", "198.18.0.0", "198.19.255.255", "198.51.100.1",
		"203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"168.63.129.16", "100.100.100.200", "[::]", "[::1]", "[::ffff:1.1.1.1]",
		"[::1.1.1.1]", "[64:ff9b::101:101]", "[64:ff9b:1::1]", "[100::1]", "[2001::1]",
		"[2001:db8::1]", "[2002:101:101::1]", "[3fff::1]", "[4000::1]", "[5f00::1]",
		"[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[fec0::1]", "[ff02::1]"};

	for (size_t i = 0; i < ARRAY_SIZE(public); i++)
		if (!permitted(public[i], NULL))
			fail_msg("%s is refused", public[i]);
	for (size_t i = 0; i < ARRAY_SIZE(special); i++)
		if (permitted(special[i], NULL))
			fail_msg("%s is permitted", special[i]);
}

TEST(test_exceptions)
{
	static const char *const ten[] = {"10.2.0.0/16", "fd12::/16", NULL};
	static const char *const all[] = {"0.0.0.0/0", "::/0", NULL};
	static const char *const never[] = {"169.254.169.254", "169.254.170.2", "168.63.129.16",
		"100.100.100.200", "192.0.0.192", "[fd00:ec2::254]", "[fd20:ce::254]",
		"[::ffff:169.254.169.254]", "[::169.254.169.254]", "[64:ff9b::a9fe:a9fe]",
		"[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::1]", "[::ffff:127.0.0.1]",
		"[fd00:c1::a9fe:a9fe]", "[fd00:42::42]", "[fd00:a9fe:a9fe::1]", "[fe80::a9fe:a9fe]",
		"[::ffff:0:a9fe:a9fe]", "[::ffff:0:169.254.169.254]", "169.254.42.42",
		"169.254.0.23"};

	assert_true(permitted("10.2.255.255", ten));
	assert_false(permitted("10.3.0.0", ten));
	assert_true(permitted("[fd12::1]", ten));
	assert_false(permitted("[fd13::1]", ten));
	assert_true(permitted("127.0.0.1", all));
	assert_true(permitted("[::1]", all));
	assert_true(permitted("[64:ff9b::101:101]", all));
	assert_true(permitted("[fe80::1]", all));
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		if (permitted(never[i], all))
			fail_msg("%s is permitted", never[i]);
}

TEST(test_networks)
{
	static const char *const bad[] = {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.1/8",
		"::/129", "fd00::1/8", "10.0.0/8", "example.com", "10.0.0.0/8/8", "10.0.0.0/ 8",
		"[::1]"};
	static const char *const never[] = {"169.254.169.254", "169.254.169.0/24", "fd00:ec2::254",
		"fd00:ec2::/32", "168.63.129.16/32", "fd00:a9fe:a9fe::1", "fe80::a9fe:a9fe"};
	struct network network;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(network_parse(text_from(bad[i]), &network), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(never); i++)
		assert_int_equal(network_parse(text_from(never[i]), &network), -EPERM);
	assert_int_equal(network_parse(text_from("169.254.0.0/16"), &network), 0);
	assert_int_equal(network.prefix, 112);
}
