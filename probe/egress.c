// SPDX-License-Identifier: Apache-2.0
/*
 * Runs in a command, as an attacker's program: asks cloister-egress for hosts that it must refuse,
 * in each way that it serves. egress/canary.c has the rules that hold for the workspace.
 */
#include "probe/probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#define ANSWER_SECONDS 5
#define LOOPBACK       0x7f000001U
#define FAKE_ADDRESS   0x7f010001U /* where allowed names are: egress/dns.c */

enum { SOCKS_FAILED = 1, SOCKS_NOT_ALLOWED = 2 };

/* What is asked for, and the reason that must be given for the refusal. */
struct target {
	const char *host;
	size_t len;
	const char *reason;
	const uint8_t *address; /* for SOCKS, in place of the name */
	uint8_t address_len;
};

#define HOST(text, reason)                           \
	{                                            \
		text, sizeof(text) - 1, reason, 0, 0 \
	}
#define PRIVATE(text) HOST(text, "private_address")
#define ADDRESS(text, reason, ...)                                              \
	{                                                                       \
		text, sizeof(text) - 1, reason, (const uint8_t[]){__VA_ARGS__}, \
			sizeof((const uint8_t[]){__VA_ARGS__})                  \
	}
#define PRIVATE_ADDRESS(text, ...) ADDRESS(text, "private_address", __VA_ARGS__)

/* clang-format off */
static const struct target metadata[] = {
	PRIVATE("169.254.169.254"),
	PRIVATE_ADDRESS("169.254.169.254.", 169, 254, 169, 254),
	PRIVATE("0xa9fea9fe"),
	PRIVATE("0XA9.0xFE.43518"),
	PRIVATE("2852039166"),
	PRIVATE("0251.0376.0251.0376"),
	PRIVATE("169.254.43518"),
	PRIVATE("169.16689662"),
	PRIVATE("169.254.170.2"),
	PRIVATE("100.100.100.200"),
	PRIVATE_ADDRESS("0x646464c8", 100, 100, 100, 200),
	PRIVATE("1684301000"),
	PRIVATE("168.63.129.16"),
	PRIVATE("192.0.0.192"),
	PRIVATE_ADDRESS("[fd00:ec2::254]", 0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54),
	PRIVATE("[FD00:0EC2:0:0:0:0:0:0254]"),
	PRIVATE_ADDRESS("[fd20:ce::254]", 0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54),
	PRIVATE("[fd00:a9fe:a9fe::1]"),
	PRIVATE("[fe80::a9fe:a9fe]"),
	PRIVATE("[::ffff:0:169.254.169.254]"),
	PRIVATE_ADDRESS("[::ffff:169.254.169.254]", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 169, 254, 169, 254),
	PRIVATE("[::ffff:a9fe:a9fe]"),
	PRIVATE("[::169.254.169.254]"),
	PRIVATE_ADDRESS("[64:ff9b::a9fe:a9fe]", 0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 169, 254, 169, 254),
	PRIVATE("[2002:a9fe:a9fe::1]"),
	HOST("metadata.google.internal", "not_allowed"),
	HOST("169.254.169.254.nip.io", "not_allowed"),
	{0},
};

static const struct target private[] = {
	PRIVATE_ADDRESS("10.0.0.1", 10, 0, 0, 1),
	PRIVATE("10.1"),
	PRIVATE("0xa000001"),
	PRIVATE("012.0.0.1"),
	PRIVATE("167772161"),
	PRIVATE("172.16.0.1"),
	PRIVATE("192.168.0.1"),
	PRIVATE_ADDRESS("127.0.0.1", 127, 0, 0, 1),
	PRIVATE("127.1"),
	PRIVATE("0x7f.1"),
	PRIVATE("2130706433"),
	PRIVATE_ADDRESS("0.0.0.0", 0, 0, 0, 0),
	PRIVATE("0"),
	PRIVATE("100.64.0.1"),
	PRIVATE("198.18.0.1"),
	PRIVATE("224.0.0.1"),
	PRIVATE("255.255.255.255"),
	PRIVATE_ADDRESS("[::]", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
	PRIVATE_ADDRESS("[::1]", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
	PRIVATE_ADDRESS("[fc00::1]", 0xfc, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
	PRIVATE("[fe80::1]"),
	PRIVATE("[ff02::1]"),
	PRIVATE("[2001:db8::1]"),
	PRIVATE_ADDRESS("[::ffff:10.0.0.1]", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1),
	PRIVATE("[::ffff:127.0.0.1]"),
	PRIVATE("[64:ff9b::a00:1]"),
	PRIVATE("[64:ff9b:1::a00:1]"),
	PRIVATE("[2002:a00:1::1]"),
	{0},
};

/* In a workspace that has asked for no host of those that its tenant may reach. */
static const struct target empty[] = {
	ADDRESS("10.0.0.1", "not_allowed", 10, 0, 0, 1),
	ADDRESS("[fc00::1]", "not_allowed", 0xfc, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1),
	HOST("example.invalid", "not_allowed"),
	{0},
};

static const struct target names[] = {
	HOST("example.invalid", "not_allowed"),
	HOST("xcanary.invalid", "not_allowed"),
	HOST("canary.invalid.example.invalid", "not_allowed"),
	HOST("canary.invalid", "denied"),
	HOST("CANARY.invalid.", "denied"),
	HOST("x.canary.invalid", "denied"),
	HOST("canary.invalid\0.example.invalid", "bad_request"),
	HOST("canary.invalid@example.invalid", "bad_request"),
	HOST("%63anary.invalid", "bad_request"),
	HOST("canary..invalid", "bad_request"),
	{0},
};
/* clang-format on */

/* Bytes that are put together. */
struct bytes {
	char at[600];
	size_t len;
};

static void add_probe_bytes(struct bytes *bytes, const char *from, size_t len)
{
	for (size_t i = 0; i < len && bytes->len < sizeof(bytes->at); i++)
		bytes->at[bytes->len++] = from[i];
}

static void add_text(struct bytes *bytes, const char *text)
{
	add_probe_bytes(bytes, text, probe_length(text));
}

static void add_byte(struct bytes *bytes, uint8_t byte)
{
	add_probe_bytes(bytes, (const char *)&byte, 1);
}

/* Reads a number and takes the byte behind it. */
static uint32_t take_probe_number(const char **at)
{
	uint32_t number = 0;

	while (**at >= '0' && **at <= '9')
		number = number * 10 + (uint32_t)(*(*at)++ - '0');
	if (**at)
		(*at)++;
	return number;
}

static struct sockaddr_in probe_address(uint32_t address, uint32_t port)
{
	struct sockaddr_in made = {.sin_family = AF_INET};
	uint8_t *to_port = (uint8_t *)&made.sin_port, *to_address = (uint8_t *)&made.sin_addr;

	for (int i = 0; i < 2; i++)
		to_port[i] = (uint8_t)(port >> (8 - 8 * i));
	for (int i = 0; i < 4; i++)
		to_address[i] = (uint8_t)(address >> (24 - 8 * i));
	return made;
}

/* Finds the proxy in the environment, where it is http://A.B.C.D:PORT. Returns 0 or -ENOENT. */
static int find_proxy(struct sockaddr_in *ret)
{
	static const char variable[] = "http_proxy=http://";

	for (char **at = probe_environment; *at; at++) {
		const char *rest = *at + sizeof(variable) - 1;
		uint32_t address = 0;

		if (!probe_begins(*at, variable))
			continue;
		for (int i = 0; i < 4; i++)
			address = address << 8 | (take_probe_number(&rest) & 255);
		*ret = probe_address(address, take_probe_number(&rest));
		return 0;
	}
	return -ENOENT;
}

/* Sends @request and reads at least @want bytes, less at the end. Returns the length or -errno. */
static long ask_egress(const struct sockaddr_in *to, int type, const struct bytes *request,
	char *reply, size_t want)
{
	const struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	long fd = RAW3(SYS_socket, AF_INET, type | SOCK_CLOEXEC, 0), r;
	size_t len = 0;

	if (fd < 0)
		return fd;
	r = RAW5(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (r == 0)
		r = RAW3(SYS_connect, fd, to, sizeof(*to));
	if (r == 0)
		r = RAW3(SYS_write, fd, request->at, request->len);
	while (r > 0 && len < want) {
		r = RAW3(SYS_read, fd, reply + len, want - len);
		if (r > 0)
			len += (size_t)r;
	}
	RAW1(SYS_close, fd);
	return r < 0 ? r : (long)len;
}

/* Returns the last word of the first line, which is the reason of a refusal. */
static const char *last_word(char *reply, size_t len)
{
	size_t end = 0, begin;

	while (end < len && reply[end] != '\r' && reply[end] != '\n')
		end++;
	reply[end] = '\0';
	for (begin = end; begin > 0 && reply[begin - 1] != ' ';)
		begin--;
	return reply + begin;
}

static const char *ask_http(const struct sockaddr_in *to, const struct bytes *request)
{
	static char reply[4096 + 1];
	long n = ask_egress(to, SOCK_STREAM, request, reply, sizeof(reply) - 1);

	if (n < 0)
		return probe_answer(n);
	return n > 0 ? last_word(reply, (size_t)n) : "nothing";
}

/* One way to ask for @target: the reason that comes back, or what came in its place. */
typedef const char *way(const struct sockaddr_in *proxy, const struct target *target);

static const char *by_connect(const struct sockaddr_in *proxy, const struct target *target)
{
	struct bytes request = {.len = 0};

	add_text(&request, "CONNECT ");
	add_probe_bytes(&request, target->host, target->len);
	add_text(&request, ":80 HTTP/1.1\r\n\r\n");
	return ask_http(proxy, &request);
}

static const char *by_http(const struct sockaddr_in *proxy, const struct target *target)
{
	struct bytes request = {.len = 0};

	add_text(&request, "GET http://");
	add_probe_bytes(&request, target->host, target->len);
	add_text(&request, "/ HTTP/1.1\r\nHost: ");
	add_probe_bytes(&request, target->host, target->len);
	add_text(&request, "\r\n\r\n");
	return ask_http(proxy, &request);
}

/* As a client that knows no proxy, at the address of every allowed name. */
static const char *by_host(const struct sockaddr_in *proxy, const struct target *target)
{
	const struct sockaddr_in to = probe_address(FAKE_ADDRESS, 80);
	struct bytes request = {.len = 0};

	(void)proxy;
	add_text(&request, "GET / HTTP/1.1\r\nHost: ");
	add_probe_bytes(&request, target->host, target->len);
	add_text(&request, "\r\n\r\n");
	return ask_http(&to, &request);
}

/* A reply of SOCKS has less to say: it is the wanted reason if it is that one's. RFC 1928 */
static const char *by_socks(const struct sockaddr_in *proxy, const struct target *target)
{
	static const char greeting[] = {5, 1, 0, 5, 1, 0};
	const int wanted =
		probe_equal(target->reason, "bad_request") ? SOCKS_FAILED : SOCKS_NOT_ALLOWED;
	struct bytes request = {.len = 0};
	char reply[12] = {0};
	long n;

	add_probe_bytes(&request, greeting, sizeof(greeting));
	if (target->address_len > 0) {
		add_byte(&request, target->address_len == 4 ? 1 : 4);
		add_probe_bytes(&request, (const char *)target->address, target->address_len);
	} else {
		add_byte(&request, 3);
		add_byte(&request, (uint8_t)target->len);
		add_probe_bytes(&request, target->host, target->len);
	}
	add_probe_bytes(&request, "\0\120", 2); /* port 80 */
	n = ask_egress(proxy, SOCK_STREAM, &request, reply, sizeof(reply));
	if (n < 4)
		return n < 0 ? probe_answer(n) : "nothing";
	return reply[3] == wanted ? target->reason : probe_number(reply[3]);
}

/* A question for the address of a name, of which only the answer's code is looked at. RFC 1035 */
static const char *by_dns(const struct sockaddr_in *proxy, const struct target *target)
{
	static const char header[] = {1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0};
	static const char end[] = {0, 0, 1, 0, 1};
	const struct sockaddr_in to = probe_address(LOOPBACK, 53);
	struct bytes question = {.len = 0};
	char reply[12] = {0};
	long n;

	(void)proxy;
	add_probe_bytes(&question, header, sizeof(header));
	for (size_t begin = 0, i = 0; i <= target->len; i++)
		if ((i == target->len || target->host[i] == '.') && i > begin) {
			add_byte(&question, (uint8_t)(i - begin));
			add_probe_bytes(&question, target->host + begin, i - begin);
			begin = i + 1;
		}
	add_probe_bytes(&question, end, sizeof(end));
	n = ask_egress(&to, SOCK_DGRAM, &question, reply, sizeof(reply));
	if (n < (long)sizeof(reply))
		return n < 0 ? probe_answer(n) : "nothing";
	return (reply[3] & 15) == 3 ? target->reason : "a name";
}

/* Asks for each target: "refused", or the first that was not, with the answer. */
static const char *try_all(const struct target *targets, way *ask_for)
{
	static struct bytes said;
	struct sockaddr_in proxy;
	int r = find_proxy(&proxy);

	if (r < 0)
		return "no proxy";
	for (; targets->host; targets++) {
		const char *answer = ask_for(&proxy, targets);

		if (probe_equal(answer, targets->reason))
			continue;
		add_text(&said, targets->host);
		add_text(&said, " ");
		add_text(&said, answer);
		add_byte(&said, 0);
		return said.at;
	}
	return "refused";
}

/* Defines a probe that asks for each of @targets in one way. */
#define TRY(targets, way)                        \
	static const char *targets##_##way(void) \
	{                                        \
		return try_all(targets, way);    \
	}

/* clang-format off */
TRY(metadata, by_connect)
TRY(metadata, by_http)
TRY(metadata, by_socks)
TRY(metadata, by_host)
TRY(private, by_connect)
TRY(private, by_http)
TRY(private, by_socks)
TRY(private, by_host)
TRY(empty, by_connect)
TRY(empty, by_http)
TRY(empty, by_socks)
TRY(empty, by_host)
TRY(names, by_connect)
TRY(names, by_http)
TRY(names, by_socks)
TRY(names, by_host)
TRY(names, by_dns)
/* clang-format on */

const struct probe probes_of_egress[] = {
	{"metadata-connect", metadata_by_connect},
	{"metadata-http", metadata_by_http},
	{"metadata-socks", metadata_by_socks},
	{"metadata-host", metadata_by_host},
	{"private-connect", private_by_connect},
	{"private-http", private_by_http},
	{"private-socks", private_by_socks},
	{"private-host", private_by_host},
	{"empty-connect", empty_by_connect},
	{"empty-http", empty_by_http},
	{"empty-socks", empty_by_socks},
	{"empty-host", empty_by_host},
	{"names-connect", names_by_connect},
	{"names-http", names_by_http},
	{"names-socks", names_by_socks},
	{"names-host", names_by_host},
	{"names-dns", names_by_dns},
	{NULL, NULL},
};
