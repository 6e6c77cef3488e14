// SPDX-License-Identifier: Apache-2.0
/*
 * Runs as `cloister-gate --probe`, started by the administrator, and is a client of a gate that
 * serves. It connects to addresses of this host alone, so that the keys go nowhere else, and does
 * not verify the gate's certificate. libcurl connects and speaks TLS; the bytes are the probes'
 * own.
 */
#include "gate/probe.h"

#include "common/cleanup.h"
#include "common/text.h"
#include "gate/gate_config.h"
#include "json/json_read.h"

#include <curl/curl.h>
#include <errno.h>
#include <json-c/json_object.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES 65536
#define WAIT_MS      10000
#define WRONG_KEY    "e2b_0123456789abcdef0123456789abcdef01234567"

struct probe {
	const struct gate_address *address;
	bool tls;
	const char *host; /* by which the gate is known */
	char answer[ANSWER_BYTES];
	int status; /* 0: the gate closed the connection without an answer; -1: it answered nothing
		     */
	int failed;
};

static CURL *probe_connect(const struct probe *probe)
{
	CURL *curl = curl_easy_init();
	char url[sizeof(probe->address->text) + 16];

	if (!curl)
		return NULL;
	snprintf(url, sizeof(url), "%s://%s/", probe->tls ? "https" : "http",
		probe->address->is_unix ? "localhost" : probe->address->text);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	if (probe->address->is_unix)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, probe->address->text);
	curl_easy_setopt(curl, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
	curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)WAIT_MS);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	if (curl_easy_perform(curl) == CURLE_OK)
		return curl;
	curl_easy_cleanup(curl);
	return NULL;
}

/* Whether the answer has as many bytes as its head says. */
static bool probe_has_all(const char *answer, size_t len)
{
	const char *body = strstr(answer, "\r\n\r\n");
	const char *length = strcasestr(answer, "content-length:");

	if (!body)
		return false;
	return !length || length > body ||
	       len - (size_t)(body + 4 - answer) >= strtoul(length + 15, NULL, 10);
}

/* Reads an answer, or the end of the connection. */
static void probe_read(struct probe *probe, CURL *curl)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	size_t len = 0, n = 0;
	CURLcode code;

	curl_easy_getinfo(curl, CURLINFO_ACTIVESOCKET, &fd);
	probe->answer[0] = '\0';
	probe->status = -1;
	while (len < ANSWER_BYTES - 1 && !probe_has_all(probe->answer, len)) {
		code = curl_easy_recv(curl, probe->answer + len, ANSWER_BYTES - 1 - len, &n);
		if (code == CURLE_AGAIN) {
			if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS) <= 0)
				return;
			continue;
		}
		if (code != CURLE_OK || n == 0)
			break;
		len += n;
		probe->answer[len] = '\0';
	}
	probe->status = strncmp(probe->answer, "HTTP/1.", 7) == 0 ? atoi(probe->answer + 9) : 0;
}

static void probe_ask(struct probe *probe, const char *text)
{
	CURL *curl = probe_connect(probe);
	size_t sent;

	probe->status = 0;
	probe->answer[0] = '\0';
	if (!curl)
		return;
	/* A new socket takes a short text at once. */
	if (curl_easy_send(curl, text, strlen(text), &sent) == CURLE_OK && sent == strlen(text))
		probe_read(probe, curl);
	curl_easy_cleanup(curl);
}

static void probe_ask_by_key(struct probe *probe, const char *method, const char *path,
	const char *key, const char *body)
{
	char text[4096];

	snprintf(text, sizeof(text),
		"%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nX-API-Key: %s\r\n"
		"Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		method, path, probe->host, key, strlen(body), body);
	probe_ask(probe, text);
}

static void probe_tell(struct probe *probe, bool is_right, const char *what)
{
	printf("%s %s: %s", is_right ? "ok    " : "FAILED", probe->address->text, what);
	if (probe->status > 0)
		printf(" (%d)\n", probe->status);
	else
		puts(probe->status == 0 ? " (closed)" : " (no answer)");
	probe->failed += !is_right;
}

/* Heads that two readers could take for different requests, and those of strangers. */
static const struct {
	const char *what, *text; /* with HOST for the gate's name */
	int status;
} probes[] = {
	{"it serves", "GET /health HTTP/1.1\r\nHost: HOST\r\n\r\n", 200},
	{"another host is refused", "GET /health HTTP/1.1\r\nHost: probe.invalid\r\n\r\n", 421},
	{"a page of another origin is refused",
		"GET /health HTTP/1.1\r\nHost: HOST\r\nOrigin: https://probe.invalid\r\n\r\n", 403},
	{"two lengths are refused",
		"POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nContent-Length: "
		"5\r\n\r\n",
		400},
	{"a length with chunks is refused",
		"POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\n"
		"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		400},
	{"a space before a colon is refused",
		"POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Length : 5\r\n\r\n", 400},
	{"two hosts are refused",
		"GET /health HTTP/1.1\r\nHost: HOST\r\nHost: probe.invalid\r\n\r\n", 400},
	{"no key is no way in", "GET /sandboxes HTTP/1.1\r\nHost: HOST\r\n\r\n", 401},
	{"a wrong key is none: /mcp",
		"POST /mcp HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer " WRONG_KEY
		"\r\nContent-Length: 0\r\n\r\n",
		401},
	{"a wrong key is none: /agent",
		"GET /agent HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: cloister\r\n"
		"X-API-Key: " WRONG_KEY "\r\n\r\n",
		401},
	{"a token that nobody signed is none",
		"POST /mcp HTTP/1.1\r\nHost: HOST\r\nAuthorization: Bearer "
		"eyJhbGciOiJub25lIn0.e30.AA\r\nContent-Length: 0\r\n\r\n",
		401},
};

static void probe_as_stranger(struct probe *probe)
{
	char text[1024];

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		const char *rest = probes[i].text, *host;
		size_t len = 0;

		while ((host = strstr(rest, "HOST")) != NULL) {
			len += (size_t)snprintf(text + len, sizeof(text) - len, "%.*s%s",
				(int)(host - rest), rest, probe->host);
			rest = host + 4;
		}
		snprintf(text + len, sizeof(text) - len, "%s", rest);
		probe_ask(probe, text);
		/* The address may have shown too many wrong keys, also those of an earlier probe.
		 */
		probe_tell(probe,
			probe->status == probes[i].status ||
				(probes[i].status == 401 && probe->status == 429) ||
				(probes[i].status == 400 && probe->status == 0),
			probes[i].what);
	}
}

/* An address of other networks speaks TLS alone, or only the proxy is served there. */
static void probe_plainly(struct probe *probe)
{
	bool tls = probe->tls;

	if (probe->address->is_loopback)
		return;
	probe->tls = false;
	probe_ask(probe, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
	probe_tell(probe, probe->status <= 0, "HTTP without TLS is refused");
	probe->tls = tls;
}

static bool read_sandbox_id(const char *answer, char *ret, size_t size)
{
	const char *body = strstr(answer, "\r\n\r\n");
	struct text text = text_from(body ? body + 4 : "");
	struct json_bounds bounds = json_request_bounds(text.len);
	struct json_object *root = NULL, *id = NULL;
	struct json_report report;
	bool has_id;

	has_id = json_read(text, &bounds, &root, &report) == 0 &&
		 json_object_object_get_ex(root, "sandboxID", &id) &&
		 json_object_is_type(id, json_type_string);
	if (has_id)
		snprintf(ret, size, "%s", json_object_get_string(id));
	json_object_put(root);
	return has_id;
}

/* One tenant's sandbox is nothing for another. */
static void probe_as_tenants(struct probe *probe, const char *mine, const char *others)
{
	static const struct {
		const char *method, *path, *what;
	} rows[] = {
		{"GET", "", "another tenant does not see a sandbox"},
		{"POST", "/connect", "another tenant does not connect to it"},
		{"DELETE", "", "another tenant does not end it"},
	};
	char id[64], path[128];

	probe_ask_by_key(
		probe, "POST", "/sandboxes", mine, "{\"templateID\":\"base\",\"timeout\":60}");
	probe_tell(probe, probe->status == 201, "a tenant makes a sandbox");
	if (!read_sandbox_id(probe->answer, id, sizeof(id)))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(path, sizeof(path), "/sandboxes/%s%s", id, rows[i].path);
		probe_ask_by_key(probe, rows[i].method, path, others,
			rows[i].path[0] ? "{\"timeout\":60}" : "");
		probe_tell(probe, probe->status == 404, rows[i].what);
	}
	snprintf(path, sizeof(path), "/sandboxes/%s", id);
	probe_ask_by_key(probe, "DELETE", path, mine, "");
	probe_tell(probe, probe->status == 204, "its tenant ends it");
}

static void probe_address(struct probe *probe, char keys[2][64])
{
	probe_plainly(probe);
	probe_as_stranger(probe);
	if (keys)
		probe_as_tenants(probe, keys[0], keys[1]);
}

static int read_two_keys(const char *path, char keys[2][64])
{
	FILE *file = fopen(path, "re");
	int n;

	if (!file)
		return -errno;
	n = fscanf(file, "%63s %63s", keys[0], keys[1]);
	fclose(file);
	return n == 2 ? 0 : -EBADMSG;
}

int gate_probe(const struct gate_config *config, const char *path)
{
	_cleanup_free_ struct probe *probe = calloc(1, sizeof(*probe));
	char keys[2][64];
	int r = path ? read_two_keys(path, keys) : 0;

	if (!probe || r < 0)
		return probe ? r : -ENOMEM;
	probe->host = config->hosts.count > 0 ? config->hosts.strings[0] : "localhost";
	for (size_t i = 0; i < config->listen.count; i++) {
		probe->address = &config->listen.items[i];
		probe->tls = config->tls == GATE_TLS_CERTIFICATE && !probe->address->is_unix;
		probe_address(probe, path ? keys : NULL);
	}
	return probe->failed;
}
