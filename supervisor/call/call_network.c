// SPDX-License-Identifier: Apache-2.0
/* Runs in cloisterd. environ(7); the programs' own documentation says which variables they read. */
#include "supervisor/call/call_network.h"

#include "common/byte_queue.h"
#include "common/cleanup.h"
#include "common/egress/host.h"
#include "common/egress/secret_line.h"
#include "common/limits.h"
#include "supervisor/base/json_text.h"
#include "supervisor/call/request/notes.h"
#include "supervisor/config/tenant.h"
#include "supervisor/workspace/network/network_use.h"
#include "supervisor/workspace/workspace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define VALUE_BYTES   512
#define ALLOWED_BYTES 400 /* of the allowed hosts in a sentence */
#define NAME_BYTES    (LIMIT_EGRESS_HOST_BYTES + 32)

/*
 * The workspace's own servers. Programs read a list in different ways: as names, with networks, and
 * an IPv6 address with or without brackets.
 */
#define LOOPBACK "localhost,.localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1,[::1]"

/* The JVM reads system properties only. */
static const char java_options[] =
	"JAVA_TOOL_OPTIONS=-Dhttp.proxyHost=@ -Dhttp.proxyPort=# -Dhttps.proxyHost=@ "
	"-Dhttps.proxyPort=# -Dhttp.nonProxyHosts=localhost|*.localhost|127.*|0.0.0.0|[::1]";

/*
 * Not PIP_PROXY, nor another variable by which the proxy serves all hosts: pip reads https_proxy.
 *
 * What clients read that do not need one of their own: curl, git, wget, Ruby and Bundler, Python,
 * Go, Cargo and apt read http_proxy, https_proxy or both, in one case or the other; Maven and
 * Gradle are JVMs. In values "@" stands for the proxy's address and "#" for its port.
 */
static const char *const variables[] = {
	"http_proxy=http://@:#",
	"HTTP_PROXY=http://@:#",
	"https_proxy=http://@:#",
	"HTTPS_PROXY=http://@:#",
	/* No socks5h: httpx, of which SDKs of models are made, ends at that word. */
	"all_proxy=http://@:#",
	"ALL_PROXY=http://@:#",
	("no_proxy=" LOOPBACK),
	("NO_PROXY=" LOOPBACK),
	/* Node's fetch and http.request look at the variables above only with this one. */
	"NODE_USE_ENV_PROXY=1",
	java_options,
	"npm_config_proxy=http://@:#",
	"npm_config_https_proxy=http://@:#",
	("npm_config_noproxy=" LOOPBACK),
	"YARN_HTTP_PROXY=http://@:#",
	"YARN_HTTPS_PROXY=http://@:#",
	"CLOUDSDK_PROXY_TYPE=http",
	"CLOUDSDK_PROXY_ADDRESS=@",
	"CLOUDSDK_PROXY_PORT=#",
	"RSYNC_PROXY=@:#",
	"grpc_proxy=http://@:#",
	"GRPC_PROXY=http://@:#",
};

/*
 * ssh knows no proxy. Which program of the workspace's root can ask one, the workspace's own shell
 * finds out when ssh connects: cloisterd looks up no names in there. ncat(1), socat(1), and nc(1)
 * of OpenBSD.
 */
static const char git_ssh[] =
	"GIT_SSH_COMMAND=ssh -o 'ProxyCommand=sh -c \"if command -v ncat >/dev/null; then exec "
	"ncat --proxy-type http --proxy @:# %h %p; elif command -v socat >/dev/null; then exec "
	"socat - PROXY:@:%h:%p,proxyport=#; else exec nc -X connect -x @:# %h %p; fi\"'";

_Static_assert(ARRAY_SIZE(variables) + 1 <= LIMIT_NETWORK_ENV_COUNT, "the worker counts them");

/* Writes @form with the address and port into @value. */
static void fill_in(
	char value[static VALUE_BYTES], const char *form, const char *address, const char *port)
{
	size_t len = 0;

	for (; *form && len + INET_ADDRSTRLEN < VALUE_BYTES; form++) {
		const char *part = *form == '@' ? address : *form == '#' ? port : NULL;

		if (part)
			len += (size_t)snprintf(value + len, VALUE_BYTES - len, "%s", part);
		else
			value[len++] = *form;
	}
	value[len] = '\0';
}

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* Whether the tenant may reach the port of ssh somewhere. */
static bool allows_ssh(const struct tenant *tenant)
{
	for (size_t i = 0; i < tenant->egress_allow.count; i++) {
		const char *rule = tenant->egress_allow.strings[i];

		if (ends_with(rule, ":22") ||
			(strncmp(rule, "tcp:", 4) == 0 && ends_with(rule, ":*")))
			return true;
	}
	return false;
}

static int put_variable(
	struct byte_queue *body, const char *form, const char *address, const char *port)
{
	char value[VALUE_BYTES];

	fill_in(value, form, address, port);
	return byte_queue_append(body, value, strlen(value) + 1);
}

int call_network_put_env(
	struct byte_queue *body, const struct network_use *use, const struct tenant *tenant)
{
	char address[INET_ADDRSTRLEN], port[8];
	int r = 0;

	if (use->address == 0)
		return 0;
	snprintf(address, sizeof(address), "127.64.%d.%d", use->address >> 8, use->address & 0xff);
	snprintf(port, sizeof(port), "%u", (unsigned)use->port);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(variables); i++)
		r = put_variable(body, variables[i], address, port);
	if (r == 0 && allows_ssh(tenant))
		r = put_variable(body, git_ssh, address, port);
	return r;
}

/* Writes the rules of the workspace, as far as there is room. */
static void list_allowed(char allowed[static ALLOWED_BYTES], const struct workspace *workspace)
{
	const struct string_list *rules = &workspace_tenant(workspace)->egress_allow;
	const char *narrowed = workspace_narrowed(workspace);
	size_t len = 0, i;

	if (narrowed) {
		snprintf(allowed, ALLOWED_BYTES, "%s", narrowed);
		return;
	}
	allowed[0] = '\0';
	for (i = 0; i < rules->count; i++) {
		size_t more = strlen(rules->strings[i]) + 1;

		if (len + more + sizeof(" and others") > ALLOWED_BYTES)
			break;
		len += (size_t)snprintf(allowed + len, ALLOWED_BYTES - len, "%s%s",
			len > 0 ? " " : "", rules->strings[i]);
	}
	if (i < rules->count)
		snprintf(allowed + len, ALLOWED_BYTES - len, "%s", " and others");
}

/* Writes the base URLs of the workspace's secrets, as far as there is room. */
static void list_secrets(char allowed[static ALLOWED_BYTES], const struct workspace *workspace)
{
	const struct string_list *secrets = &workspace_tenant(workspace)->egress_secrets;
	size_t len = 0;

	allowed[0] = '\0';
	for (size_t i = 0; i < secrets->count; i++) {
		const char *secret = secrets->strings[i];
		int name = (int)strcspn(secret, " \t");

		if (len + (size_t)name + sizeof(" http://" SECRET_DOMAIN "/") > ALLOWED_BYTES)
			return;
		len += (size_t)snprintf(allowed + len, ALLOWED_BYTES - len,
			"%shttp://%.*s" SECRET_DOMAIN "/", len > 0 ? " " : "", name, secret);
	}
}

/* What follows the host's name in the sentence about a refusal. */
static const char *const sentences[EGRESS_REASON_END] = {
	[EGRESS_NOT_ALLOWED] = "is not allowed in this workspace",
	[EGRESS_RULE_DENIED] = "is denied in this workspace",
	[EGRESS_PORT] = "is not allowed in this workspace: the host is, but not this port",
	[EGRESS_PRIVATE_ADDRESS] =
		"is not allowed in this workspace: its address is not one of the public Internet",
	[EGRESS_SNI_MISMATCH] =
		"was not connected: the program did not speak TLS to the host that it had named",
	[EGRESS_DNS_FAILED] = "was not connected: the name has no address",
	[EGRESS_LIMIT] = "was not connected: a limit of the network of this workspace is reached",
	[EGRESS_UPSTREAM_FAILED] = "did not accept the connection",
	[EGRESS_BAD_REQUEST] = "was not connected: the program did not ask as the client of an "
			       "HTTP or SOCKS5 proxy does",
	[EGRESS_UNKNOWN_SECRET] = "stands for no secret of this workspace",
};

static bool is_loopback(const struct network_denial *denial)
{
	struct host host;

	return host_parse(text_from(denial->host), &host) == 0 && host_is_loopback(&host);
}

/* The same where the way on which the program asked needs other words, or NULL. */
static const char *sentence_of_way(const struct network_denial *denial)
{
	if (denial->via == EGRESS_VIA_SOCKS && denial->reason == EGRESS_BAD_REQUEST)
		return "was not connected: of SOCKS5 only CONNECT is served, to a name in ASCII or "
		       "an address, and without a user and a password";
	if (denial->via == EGRESS_VIA_DNS && denial->reason == EGRESS_PORT)
		return "is allowed in this workspace, but not at port 80 or 443, and other ports "
		       "are reached over the proxy only (HTTP_PROXY, ALL_PROXY)";
	if (denial->via != EGRESS_VIA_TRANSPARENT)
		return NULL;
	return denial->reason == EGRESS_SNI_MISMATCH
		       ? "was not made: the program named no host in TLS"
	       : denial->reason == EGRESS_BAD_REQUEST
		       ? "was not made: the program named no host as HTTP/1 does"
		       : NULL;
}

/* A look-up has no port, and what names no host none. */
static void name_host(const struct network_denial *denial, char name[static NAME_BYTES])
{
	if (*denial->host == '\0' && denial->port == 0)
		snprintf(name, NAME_BYTES, "A request to the proxy");
	else if (*denial->host == '\0')
		snprintf(name, NAME_BYTES, "A connection to port %u", (unsigned)denial->port);
	else if (denial->via == EGRESS_VIA_DNS)
		snprintf(name, NAME_BYTES, "%s", denial->host);
	else
		snprintf(name, NAME_BYTES, "%s:%u", denial->host, (unsigned)denial->port);
}

void call_network_note(
	struct notes *notes, const struct network_use *use, const struct workspace *workspace)
{
	const struct network_denial *first = use->denials;
	char allowed[ALLOWED_BYTES], others[64] = "", name[NAME_BYTES];
	const char *sentence;

	if (use->n_denials == 0)
		return;
	if (first->reason == EGRESS_PROXY_LOST || !sentences[first->reason]) {
		notes_add(notes, "The network was interrupted while the command ran; try again");
		return;
	}
	if (use->n_denials > 1)
		snprintf(others, sizeof(others), " (and %zu more kinds of refusals)",
			use->n_denials - 1);
	name_host(first, name);
	if (is_loopback(first)) {
		notes_add(notes,
			"%s is this workspace itself, which the proxy does not reach: the program "
			"must connect to it without the proxy (NO_PROXY has it), as curl --noproxy "
			"'*' does%s",
			name, others);
		return;
	}
	sentence = sentence_of_way(first);
	if (!sentence)
		sentence = sentences[first->reason];
	if (first->reason == EGRESS_UNKNOWN_SECRET)
		list_secrets(allowed, workspace);
	else
		list_allowed(allowed, workspace);
	if (first->reason == EGRESS_UNKNOWN_SECRET)
		notes_add(notes, "%s %s%s; there are: %s", first->host, sentence, others,
			*allowed ? allowed : "none");
	else if (first->reason == EGRESS_NOT_ALLOWED || first->reason == EGRESS_PORT)
		notes_add(notes, "%s %s%s; allowed are: %s", name, sentence, others,
			*allowed ? allowed : "no hosts");
	else
		notes_add(notes, "%s %s%s", name, sentence, others);
}

static void put_denial(struct json_text *json, const struct network_denial *denial)
{
	json_text_object_begin(json);
	json_text_put(json, "host", denial->host);
	json_text_put_uint64(json, "port", denial->port);
	json_text_put(json, "reason", egress_reason_name(denial->reason));
	json_text_put_uint64(json, "count", denial->count);
	json_text_put(json, "via", egress_via_name(denial->via));
	json_text_object_end(json);
}

void call_network_write(struct json_text *json, const struct network_use *use)
{
	json_text_put_object(json, "network");
	json_text_put_uint64(json, "connections", use->connections);
	json_text_put_uint64(json, "bytes_in", use->bytes_in);
	json_text_put_uint64(json, "bytes_out", use->bytes_out);
	json_text_put_array(json, "denied");
	for (size_t i = 0; i < use->n_denials; i++)
		put_denial(json, &use->denials[i]);
	json_text_array_end(json);
	if (network_use_unlisted(use) > 0)
		json_text_put_uint64(json, "denied_unlisted", network_use_unlisted(use));
	/* It did not come while the answer waited for it. */
	if (use->is_ending && !use->is_summed) {
		json_text_put_bool(json, "incomplete", true);
	}
	json_text_object_end(json);
}
