/* links: cloister-supervisor */
// SPDX-License-Identifier: Apache-2.0
/* What a command with a network is given and told: the variables of its environment, the sentence
 * about what it was refused, and the numbers in its answer. Hosts were chosen by the command. */
#include "supervisor/call/call_network.h"

#include "common/byte_queue.h"
#include "common/wire/wire_egress.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/workspace_state.h"
#include "tests/lib/unit.h"

#include <event2/buffer.h>

static struct tenant tenant;
static struct workspace workspace;

/* The tenant's hosts and secrets, as in its configuration. */
static void configure(char **allow, size_t n_allow, char **secrets, size_t n_secrets)
{
	tenant = (struct tenant){.name = (char *)"one",
		.egress_allow = {.strings = allow, .count = n_allow},
		.egress_secrets = {.strings = secrets, .count = n_secrets}};
	workspace = (struct workspace){.tenant = &tenant};
}

/* Returns the value of the variable @name in the environment, or NULL; valid until the next call.
 */
static const char *variable(const struct network_use *use, const char *name)
{
	static char value[1024];
	struct byte_queue body = {0};
	const char *found = NULL;
	struct text rest;

	assert_int_equal(call_network_put_env(&body, use, &tenant), 0);
	rest = byte_queue_peek(&body);
	while (rest.len > 0) {
		size_t len = strlen(rest.data), name_len = strlen(name);

		if (strncmp(rest.data, name, name_len) == 0 && rest.data[name_len] == '=') {
			snprintf(value, sizeof(value), "%s", rest.data + name_len + 1);
			found = value;
		}
		rest.data += len + 1;
		rest.len -= len + 1;
	}
	byte_queue_free(&body);
	return found;
}

TEST(test_the_environment)
{
	static const struct {
		const char *rule;
		bool ssh;
	} rows[] = {
		{"example.org:22", true},
		{"tcp:example.org:*", true},
		{"example.org:*", false},
		{"example.org", false},
		{"example.org:2222", false},
		{":22", true},
	};
	struct network_use use = {.address = 0x1ff, .port = 18129}, none = {0};
	char *allow[1];

	configure(NULL, 0, NULL, 0);
	assert_string_equal(variable(&use, "HTTPS_PROXY"), "http://127.64.1.255:18129");
	assert_string_equal(variable(&use, "CLOUDSDK_PROXY_PORT"), "18129");
	assert_string_equal(variable(&use, "CLOUDSDK_PROXY_ADDRESS"), "127.64.1.255");
	assert_string_equal(variable(&use, "no_proxy"),
		"localhost,.localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1,[::1]");
	assert_string_equal(variable(&use, "JAVA_TOOL_OPTIONS"),
		"-Dhttp.proxyHost=127.64.1.255 -Dhttp.proxyPort=18129 "
		"-Dhttps.proxyHost=127.64.1.255 -Dhttps.proxyPort=18129 "
		"-Dhttp.nonProxyHosts=localhost|*.localhost|127.*|0.0.0.0|[::1]");
	assert_null(variable(&none, "HTTPS_PROXY"));
	/* ssh is led to the proxy if its port may be reached anywhere. */
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *ssh;

		allow[0] = (char *)rows[i].rule;
		configure(allow, 1, NULL, 0);
		ssh = variable(&use, "GIT_SSH_COMMAND");
		if ((ssh != NULL) != rows[i].ssh)
			fail_msg("%s", rows[i].rule);
		if (ssh)
			assert_non_null(strstr(ssh, "--proxy 127.64.1.255:18129 %h %p; elif "));
		if (ssh)
			assert_non_null(strstr(ssh, "-x 127.64.1.255:18129 %h %p; fi\"'"));
	}
}

/* The one note about the refusals of @use; "": there is none. */
static const char *note(const struct network_use *use)
{
	static char text[2048];
	struct notes notes = {0};

	call_network_note(&notes, use, &workspace);
	assert_true(notes.count <= 1);
	snprintf(text, sizeof(text), "%s", notes.count > 0 ? notes.texts[0] : "");
	notes_done(&notes);
	return text;
}

TEST(test_the_note)
{
	static const struct {
		struct network_denial denial;
		const char *note;
	} rows[] = {
		{{"a.org", 443, EGRESS_NOT_ALLOWED, EGRESS_VIA_CONNECT, 1},
			"a.org:443 is not allowed in this workspace; allowed are: b.org c.org"},
		{{"b.org", 80, EGRESS_PORT, EGRESS_VIA_CONNECT, 1},
			"b.org:80 is not allowed in this workspace: the host is, but not this "
			"port; "
			"allowed are: b.org c.org"},
		{{"b.org", 0, EGRESS_PORT, EGRESS_VIA_DNS, 1},
			"b.org is allowed in this workspace, but not at port 80 or 443, and other "
			"ports are reached over the proxy only (HTTP_PROXY, ALL_PROXY); allowed "
			"are: b.org c.org"},
		{{"localhost", 8000, EGRESS_NOT_ALLOWED, EGRESS_VIA_HTTP, 1},
			"localhost:8000 is this workspace itself, which the proxy does not reach: "
			"the program must connect to it without the proxy (NO_PROXY has it), as "
			"curl --noproxy '*' does"},
		{{"a.org", 443, EGRESS_RULE_DENIED, EGRESS_VIA_HTTP, 9},
			"a.org:443 is denied in this workspace"},
		{{"a.org", 443, EGRESS_PRIVATE_ADDRESS, EGRESS_VIA_SOCKS, 1},
			"a.org:443 is not allowed in this workspace: its address is not one of the "
			"public Internet"},
		{{"a.org", 443, EGRESS_SNI_MISMATCH, EGRESS_VIA_CONNECT, 1},
			"a.org:443 was not connected: the program did not speak TLS to the host "
			"that it had named"},
		{{"", 443, EGRESS_SNI_MISMATCH, EGRESS_VIA_TRANSPARENT, 1},
			"A connection to port 443 was not made: the program named no host in TLS"},
		{{"", 80, EGRESS_BAD_REQUEST, EGRESS_VIA_TRANSPARENT, 1},
			"A connection to port 80 was not made: the program named no host as HTTP/1 "
			"does"},
		{{"a.org", 443, EGRESS_LIMIT, EGRESS_VIA_TRANSPARENT, 1},
			"a.org:443 was not connected: a limit of the network of this workspace is "
			"reached"},
		{{"", 0, EGRESS_BAD_REQUEST, EGRESS_VIA_HTTP, 1},
			"A request to the proxy was not connected: the program did not ask as the "
			"client of an HTTP or SOCKS5 proxy does"},
		{{"", 0, EGRESS_BAD_REQUEST, EGRESS_VIA_SOCKS, 1},
			"A request to the proxy was not connected: of SOCKS5 only CONNECT is "
			"served, to a name in ASCII or an address, and without a user and a "
			"password"},
		{{"a.org", 0, EGRESS_DNS_FAILED, EGRESS_VIA_DNS, 1},
			"a.org was not connected: the name has no address"},
		{{"x", 80, EGRESS_UNKNOWN_SECRET, EGRESS_VIA_SECRET, 1},
			"x stands for no secret of this workspace; there are: "
			"http://key.cloister.internal/ http://other.cloister.internal/"},
		{{"", 0, EGRESS_PROXY_LOST, 0, 1},
			"The network was interrupted while the command ran; try again"},
	};
	char *allow[] = {(char *)"b.org", (char *)"c.org"};
	char *secrets[] = {(char *)"key https://a.org", (char *)"other\thttps://b.org"};
	struct network_use use = {0};

	configure(allow, 2, secrets, 2);
	assert_string_equal(note(&use), "");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct network_denial denial = rows[i].denial;

		use = (struct network_use){.denials = &denial, .n_denials = 1};
		assert_string_equal(note(&use), rows[i].note);
	}
}

/* Which hosts are allowed is said as far as there is room. */
TEST(test_what_is_allowed)
{
	static char names[40][16];
	struct network_denial denials[3] = {
		{"a.org", 443, EGRESS_NOT_ALLOWED, EGRESS_VIA_CONNECT, 1}};
	struct network_use use = {.denials = denials, .n_denials = 3};
	char *allow[40];
	const char *said;

	configure(NULL, 0, NULL, 0);
	assert_string_equal(note(&use), "a.org:443 is not allowed in this workspace (and 2 more "
					"kinds of refusals); allowed are: no hosts");
	for (size_t i = 0; i < ARRAY_SIZE(allow); i++) {
		snprintf(names[i], sizeof(names[i]), "host-%02zu.org", i);
		allow[i] = names[i];
	}
	configure(allow, ARRAY_SIZE(allow), NULL, 0);
	said = note(&use);
	assert_non_null(strstr(said, "allowed are: host-00.org host-01.org "));
	assert_string_equal(said + strlen(said) - strlen(".org and others"), ".org and others");
	/* This workspace may reach less than its tenant. */
	workspace.allow = (char *)"only.org";
	use.n_denials = 1;
	assert_string_equal(
		note(&use), "a.org:443 is not allowed in this workspace; allowed are: only.org");
	denials[0] = (struct network_denial){"x", 80, EGRESS_UNKNOWN_SECRET, EGRESS_VIA_SECRET, 1};
	assert_string_equal(
		note(&use), "x stands for no secret of this workspace; there are: none");
}

static void check_written(const struct network_use *use, const char *expected)
{
	struct evbuffer *out = evbuffer_new();
	struct json_text json = json_text(out);
	size_t len;

	json_text_object_begin(&json);
	call_network_write(&json, use);
	json_text_object_end(&json);
	assert_int_equal(json_text_flush(&json), 0);
	len = evbuffer_get_length(out);
	if (len != strlen(expected) || memcmp(evbuffer_pullup(out, -1), expected, len) != 0)
		fail_msg("%.*s", (int)len, (const char *)evbuffer_pullup(out, -1));
	evbuffer_free(out);
}

TEST(test_the_numbers)
{
	struct network_denial denials[] = {
		{"a\".org", 443, EGRESS_NOT_ALLOWED, EGRESS_VIA_CONNECT, 2},
		{"", 0, EGRESS_PROXY_LOST, 0, 1}};
	struct network_use use = {.connections = 3, .bytes_in = UINT64_MAX, .bytes_out = 5};

	check_written(&use, "{\"network\":{\"connections\":3,\"bytes_in\":18446744073709551615,"
			    "\"bytes_out\":5,\"denied\":[]}}");
	use = (struct network_use){
		.denials = denials, .n_denials = 2, .denied = 10, .is_ending = true};
	check_written(&use,
		"{\"network\":{\"connections\":0,\"bytes_in\":0,\"bytes_out\":0,\"denied\":["
		"{\"host\":\"a\\\".org\",\"port\":443,\"reason\":\"not_allowed\",\"count\":2,"
		"\"via\":\"connect\"},{\"host\":\"\",\"port\":0,\"reason\":\"proxy_lost\","
		"\"count\":1,\"via\":null}],\"denied_unlisted\":7,\"incomplete\":true}}");
	/* All has been told. */
	use.is_summed = true;
	use.n_denials = 0;
	use.denied = 0;
	check_written(&use, "{\"network\":{\"connections\":0,\"bytes_in\":0,\"bytes_out\":0,"
			    "\"denied\":[]}}");
}
